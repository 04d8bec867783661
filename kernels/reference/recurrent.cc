// Recurrent cells in plain loops: sums and functions in double, states in float, as the tensors
// hold them.
//
// One sample at a time. An element of an operand is read before the element of a result that may
// lie in its storage is written. The last states, which are results, also hold the current states.
#include <algorithm>
#include <cmath>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/recurrent_shape.h"

namespace act {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One sample.
struct Sample {
  const RecurrentShape& s;
  int64_t n;

  // The beginning of its elements at time t.
  int64_t Gates(int64_t t) const { return (n * s.steps + t) * s.Width(); }
  int64_t Units(int64_t t) const { return (n * s.steps + t) * s.units; }
  int64_t State() const { return n * s.units; }
  // The state before step number `step`. Null if it is zero.
  const float* Before(int64_t step, const float* y, const float* initial) const {
    if (step > 0) return y + Units(s.Time(step - 1));
    return initial ? initial + State() : nullptr;
  }
  // What state h contributes to pre-activation `gate` of unit j.
  double Product(const float* weights, const float* h, int64_t gate, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; h && k < s.units; ++k)
      sum += double{weights[(gate * s.units + j) * s.units + k]} * h[k];
    return sum;
  }
  // The gradient that reaches unit k through the weights of `count` gates, from `first` on.
  double ThroughWeights(const float* weights, int64_t first, int64_t count, const float* dgates,
                        int64_t k) const {
    double sum = 0;
    for (int64_t r = 0; r < count * s.units; ++r)
      sum += double{dgates[r]} * weights[(first * s.units + r) * s.units + k];
    return sum;
  }
};

std::string Lstm(const RecurrentShape& s, const KernelArgs& args) {
  const float *x = args.inputs[0].as<float>(), *weights = args.inputs[1].as<float>();
  const float *h0 = OptionalFloats(args, 2), *c0 = OptionalFloats(args, 3);
  float *y = args.outputs[0].as<float>(), *c = args.outputs[1].as<float>();
  float *slopes = args.outputs[2].as<float>(), *c_by_h = args.outputs[3].as<float>();
  float* forget = args.outputs[4].as<float>();
#pragma omp parallel for
  for (int64_t n = 0; n < s.batch; ++n) {
    const Sample sample{s, n};
    for (int64_t j = 0; j < s.units; ++j) c[sample.State() + j] = c0 ? c0[sample.State() + j] : 0;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t t = s.Time(step);
      const float* h = sample.Before(step, y, h0);
      for (int64_t j = 0; j < s.units; ++j) {
        const auto gate = [&](int64_t g) {
          return x[sample.Gates(t) + g * s.units + j] + sample.Product(weights, h, g, j);
        };
        const double i = Sigmoid(gate(0)), o = Sigmoid(gate(1)), f = Sigmoid(gate(2)), g = std::tanh(gate(3));
        float& cell = c[sample.State() + j];
        const double before = cell;
        cell = static_cast<float>(f * before + i * g);
        const double squashed = std::tanh(double{cell});
        float* slope = slopes + sample.Gates(t) + j;
        slope[0] = static_cast<float>(g * i * (1 - i));
        slope[s.units] = static_cast<float>(squashed * o * (1 - o));
        slope[2 * s.units] = static_cast<float>(before * f * (1 - f));
        slope[3 * s.units] = static_cast<float>(i * (1 - g * g));
        c_by_h[sample.Units(t) + j] = static_cast<float>(o * (1 - squashed * squashed));
        forget[sample.Units(t) + j] = static_cast<float>(f);
        y[sample.Units(t) + j] = static_cast<float>(o * squashed);
      }
    }
  }
  return "";
}

std::string LstmGrad(const RecurrentShape& s, const KernelArgs& args) {
  const float *slopes = args.inputs[0].as<float>(), *c_by_h = args.inputs[1].as<float>();
  const float *forget = args.inputs[2].as<float>(), *weights = args.inputs[3].as<float>();
  const float *dy = OptionalFloats(args, 4), *dc_last = OptionalFloats(args, 5);
  float *dx = args.outputs[0].as<float>(), *dh = args.outputs[1].as<float>(),
        *dc = args.outputs[2].as<float>();
#pragma omp parallel for
  for (int64_t n = 0; n < s.batch; ++n) {
    const Sample sample{s, n};
    for (int64_t j = sample.State(); j < sample.State() + s.units; ++j) {
      dh[j] = 0;
      dc[j] = dc_last ? dc_last[j] : 0;
    }
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t t = s.Time(step);
      for (int64_t j = 0; j < s.units; ++j) {
        const int64_t at = sample.Units(t) + j, state = sample.State() + j;
        const double h = double{dh[state]} + (dy ? dy[at] : 0), cell = dc[state] + h * c_by_h[at];
        for (int64_t gate = 0; gate < 4; ++gate) {
          const int64_t element = sample.Gates(t) + gate * s.units + j;
          dx[element] = static_cast<float>((gate == 1 ? h : cell) * slopes[element]);
        }
        dc[state] = static_cast<float>(cell * forget[at]);
      }
      for (int64_t k = 0; k < s.units; ++k)
        dh[sample.State() + k] =
            static_cast<float>(sample.ThroughWeights(weights, 0, 4, dx + sample.Gates(t), k));
    }
  }
  return "";
}

std::string Gru(const RecurrentShape& s, const KernelArgs& args) {
  const float *x = args.inputs[0].as<float>(), *weights = args.inputs[1].as<float>();
  const float *bias = OptionalFloats(args, 2), *h0 = OptionalFloats(args, 3);
  float *y = args.outputs[0].as<float>(), *slopes = args.outputs[1].as<float>();
  float *reset = args.outputs[2].as<float>(), *update = args.outputs[3].as<float>();
#pragma omp parallel for
  for (int64_t n = 0; n < s.batch; ++n) {
    const Sample sample{s, n};
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t t = s.Time(step);
      const float* h = sample.Before(step, y, h0);
      for (int64_t j = 0; j < s.units; ++j) {
        const float* in = x + sample.Gates(t) + j;
        const double z = Sigmoid(in[0] + sample.Product(weights, h, 0, j));
        const double r = Sigmoid(in[s.units] + sample.Product(weights, h, 1, j));
        const double q = sample.Product(weights, h, 2, j) + (bias ? bias[j] : 0);
        const double candidate = std::tanh(in[2 * s.units] + r * q), before = h ? h[j] : 0;
        float* slope = slopes + sample.Gates(t) + j;
        slope[0] = static_cast<float>((before - candidate) * z * (1 - z));
        slope[s.units] = static_cast<float>(q * r * (1 - r));
        slope[2 * s.units] = static_cast<float>((1 - z) * (1 - candidate * candidate));
        reset[sample.Units(t) + j] = static_cast<float>(r);
        update[sample.Units(t) + j] = static_cast<float>(z);
        y[sample.Units(t) + j] = static_cast<float>((1 - z) * candidate + z * before);
      }
    }
  }
  return "";
}

std::string GruGrad(const RecurrentShape& s, const KernelArgs& args) {
  const float *slopes = args.inputs[0].as<float>(), *reset = args.inputs[1].as<float>();
  const float *update = args.inputs[2].as<float>(), *weights = args.inputs[3].as<float>();
  const float* dy = args.inputs[4].as<float>();
  float *dx = args.outputs[0].as<float>(), *dq = args.outputs[1].as<float>(),
        *dh = args.outputs[2].as<float>();
#pragma omp parallel for
  for (int64_t n = 0; n < s.batch; ++n) {
    const Sample sample{s, n};
    std::fill_n(dh + sample.State(), s.units, 0.0f);
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t t = s.Time(step);
      for (int64_t j = 0; j < s.units; ++j) {
        const int64_t at = sample.Units(t) + j, gates = sample.Gates(t) + j;
        const double h = double{dh[sample.State() + j]} + dy[at];
        const double candidate = h * slopes[gates + 2 * s.units];
        dx[gates] = static_cast<float>(h * slopes[gates]);
        dx[gates + s.units] = static_cast<float>(candidate * slopes[gates + s.units]);
        dx[gates + 2 * s.units] = static_cast<float>(candidate);
        dq[at] = static_cast<float>(candidate * reset[at]);
        dh[sample.State() + j] = static_cast<float>(h * update[at]);
      }
      for (int64_t k = 0; k < s.units; ++k)
        dh[sample.State() + k] +=
            static_cast<float>(sample.ThroughWeights(weights, 0, 2, dx + sample.Gates(t), k) +
                               sample.ThroughWeights(weights, 2, 1, dq + sample.Units(t), k));
    }
  }
  return "";
}

std::string Rnn(const RecurrentShape& s, const KernelArgs& args) {
  const float *x = args.inputs[0].as<float>(), *weights = args.inputs[1].as<float>();
  const float* h0 = OptionalFloats(args, 2);
  float* y = args.outputs[0].as<float>();
#pragma omp parallel for
  for (int64_t n = 0; n < s.batch; ++n) {
    const Sample sample{s, n};
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = sample.Units(s.Time(step));
      const float* h = sample.Before(step, y, h0);
      for (int64_t j = 0; j < s.units; ++j) {
        const double sum = x[at + j] + sample.Product(weights, h, 0, j);
        // As in a ReLU, NaN passes through.
        y[at + j] = static_cast<float>(!s.relu ? std::tanh(sum) : sum < 0 ? 0 : sum);
      }
    }
  }
  return "";
}

std::string RnnGrad(const RecurrentShape& s, const KernelArgs& args) {
  const float *slope = args.inputs[0].as<float>(), *weights = args.inputs[1].as<float>();
  const float* dy = args.inputs[2].as<float>();
  float *dx = args.outputs[0].as<float>(), *dh = args.outputs[1].as<float>();
#pragma omp parallel for
  for (int64_t n = 0; n < s.batch; ++n) {
    const Sample sample{s, n};
    std::fill_n(dh + sample.State(), s.units, 0.0f);
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t at = sample.Units(s.Time(step));
      for (int64_t j = 0; j < s.units; ++j)
        dx[at + j] = static_cast<float>((double{dh[sample.State() + j]} + dy[at + j]) * slope[at + j]);
      for (int64_t k = 0; k < s.units; ++k)
        dh[sample.State() + k] = static_cast<float>(sample.ThroughWeights(weights, 0, 1, dx + at, k));
    }
  }
  return "";
}

}  // namespace

void RegisterReferenceRecurrent(KernelRegistry& registry) {
  const auto add = [&registry](const std::string& op, const std::string& name, auto run) {
    registry.Add(
        op, {"reference." + name, [run](const KernelSite& site, std::string* why) {
               const auto shape = RecurrentShapeOf(site, why);
               return shape ? MakeKernel([run, s = *shape](const KernelArgs& args) { return run(s, args); })
                            : nullptr;
             }});
  };
  add("Lstm", "lstm", Lstm);
  add("LstmGrad", "lstm_grad", LstmGrad);
  add("Gru", "gru", Gru);
  add("GruGrad", "gru_grad", GruGrad);
  add("Rnn", "rnn", Rnn);
  add("RnnGrad", "rnn_grad", RnnGrad);
}

}  // namespace act
