#include "kernels/cpu/recurrent.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/recurrent_cells.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/step_product.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/recurrent_shape.h"
#include "kernels/site/workspace_text.h"
#include "runtime/plan/recurrent_signature.h"

namespace act {
namespace {

constexpr int64_t kUnitBlock = 256;  // units of a sample that one thread takes at a time

// A node's loop over time. Workspace: [packed weights and scratch of the product][two buffers of
// rows].
struct Loop {
  RecurrentShape s;
  std::unique_ptr<StepProduct> product;
  int64_t buffer_floats[2];  // of one sample
  static int64_t AlignedBytesOf(int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

  int64_t BufferBytes() const {
    return AlignedBytesOf(s.batch * buffer_floats[0]) + AlignedBytesOf(s.batch * buffer_floats[1]);
  }
  float* Buffer(const KernelArgs& args, int i) const {
    const int64_t skipped = i == 0 ? 0 : AlignedBytesOf(s.batch * buffer_floats[0]);
    return reinterpret_cast<float*>(args.workspace.data.as<std::byte>() + product->WorkspaceBytes() + skipped);
  }
  // Where sample n at time t begins in [N,T,G H] and in [N,T,H].
  int64_t Gates(int64_t n, int64_t t) const { return (n * s.steps + t) * s.Width(); }
  int64_t Units(int64_t n, int64_t t) const { return (n * s.steps + t) * s.units; }
};

// f(sample, first unit, units) for all units of all samples.
template <class F>
void ForCells(const RecurrentShape& s, const F& f) {
  const int64_t blocks = (s.units + kUnitBlock - 1) / kUnitBlock;
  // The functions of the gates cost about ten times as much as moving the gates.
#pragma omp parallel for collapse(2) schedule(static) if (10 * s.batch * s.Width() > kParallelElements)
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t b = 0; b < blocks; ++b) f(n, b * kUnitBlock, std::min(kUnitBlock, s.units - b * kUnitBlock));
}

void SetState(float* state, const float* initial, int64_t count) {
  if (initial) {
    std::copy_n(initial, count, state);
  } else {
    std::fill_n(state, count, 0.0f);
  }
}

// Products of the state with the weights. Skips the product if the state is zero.
std::string StepSums(Loop& loop, bool zero, const float* h, float* sums) {
  if (!zero) return loop.product->Run(h, sums);
  std::fill_n(sums, loop.s.batch * loop.s.Width(), 0.0f);
  return "";
}

// Copies `count` units from `first` on, of each of `gates` gates, from one row to another.
void CopyGates(const float* from, float* to, int64_t gates, int64_t units, int64_t first, int64_t count) {
  for (int64_t g = 0; g < gates; ++g)
    std::memcpy(to + g * units + first, from + g * units + first, static_cast<size_t>(count) * sizeof(float));
}

std::string Lstm(Loop& loop, const KernelArgs& args) {
  const RecurrentShape& s = loop.s;
  const float *h0 = OptionalFloats(args, 2), *c0 = OptionalFloats(args, 3);
  float *h = loop.Buffer(args, 0), *sums = loop.Buffer(args, 1), *c = args.outputs[1].as<float>();
  SetState(h, h0, s.batch * s.units);
  SetState(c, c0, s.batch * s.units);
  for (int64_t step = 0; step < s.steps; ++step) {
    const int64_t t = s.Time(step);
    if (std::string error = StepSums(loop, step == 0 && !h0, h, sums); !error.empty()) return error;
    ForCells(s, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t gates = loop.Gates(n, t), at = loop.Units(n, t);
      RunCells(
          LstmCells{args.inputs[0].as<float>() + gates, sums + n * s.Width(), c + n * s.units,
                    args.outputs[0].as<float>() + at, h + n * s.units, args.outputs[2].as<float>() + gates,
                    args.outputs[3].as<float>() + at, args.outputs[4].as<float>() + at},
          s.units, first, count);
    });
  }
  return "";
}

std::string LstmGrad(Loop& loop, const KernelArgs& args) {
  const RecurrentShape& s = loop.s;
  const float* dy = OptionalFloats(args, 4);
  float *dh = args.outputs[1].as<float>(), *dc = args.outputs[2].as<float>(), *dgates = loop.Buffer(args, 0);
  SetState(dh, nullptr, s.batch * s.units);
  SetState(dc, OptionalFloats(args, 5), s.batch * s.units);
  for (int64_t step = s.steps; step-- > 0;) {
    const int64_t t = s.Time(step);
    ForCells(s, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t gates = loop.Gates(n, t), at = loop.Units(n, t);
      float* row = dgates + n * s.Width();
      RunCells(LstmGradCells{args.inputs[0].as<float>() + gates, args.inputs[1].as<float>() + at,
                             args.inputs[2].as<float>() + at, dy ? dy + at : nullptr, dh + n * s.units,
                             dc + n * s.units, row},
               s.units, first, count);
      CopyGates(row, args.outputs[0].as<float>() + gates, 4, s.units, first, count);
    });
    if (std::string error = loop.product->Run(dgates, dh); !error.empty()) return error;
  }
  return "";
}

std::string Gru(Loop& loop, const KernelArgs& args) {
  const RecurrentShape& s = loop.s;
  const float* h0 = OptionalFloats(args, 3);
  float *h = loop.Buffer(args, 0), *sums = loop.Buffer(args, 1);
  SetState(h, h0, s.batch * s.units);
  for (int64_t step = 0; step < s.steps; ++step) {
    const int64_t t = s.Time(step);
    if (std::string error = StepSums(loop, step == 0 && !h0, h, sums); !error.empty()) return error;
    ForCells(s, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t gates = loop.Gates(n, t), at = loop.Units(n, t);
      RunCells(
          GruCells{args.inputs[0].as<float>() + gates, sums + n * s.Width(), OptionalFloats(args, 2),
                   h + n * s.units, args.outputs[0].as<float>() + at, args.outputs[1].as<float>() + gates,
                   args.outputs[2].as<float>() + at, args.outputs[3].as<float>() + at},
          s.units, first, count);
    });
  }
  return "";
}

std::string GruGrad(Loop& loop, const KernelArgs& args) {
  const RecurrentShape& s = loop.s;
  float *dh = args.outputs[2].as<float>(), *dgates = loop.Buffer(args, 0);
  SetState(dh, nullptr, s.batch * s.units);
  for (int64_t step = s.steps; step-- > 0;) {
    const int64_t t = s.Time(step);
    ForCells(s, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t gates = loop.Gates(n, t), at = loop.Units(n, t);
      float *row = dgates + n * 4 * s.units, *dx = args.outputs[0].as<float>() + gates;
      RunCells(GruGradCells{args.inputs[0].as<float>() + gates, args.inputs[1].as<float>() + at,
                            args.inputs[2].as<float>() + at, args.inputs[4].as<float>() + at,
                            dh + n * s.units, row},
               s.units, first, count);
      CopyGates(row, dx, 2, s.units, first, count);
      CopyGates(row + 2 * s.units, args.outputs[1].as<float>() + at, 1, s.units, first, count);
      CopyGates(row + 3 * s.units, dx + 2 * s.units, 1, s.units, first, count);
    });
    if (std::string error = loop.product->Run(dgates, dh); !error.empty()) return error;
  }
  return "";
}

std::string Rnn(Loop& loop, const KernelArgs& args) {
  const RecurrentShape& s = loop.s;
  const float* h0 = OptionalFloats(args, 2);
  float *h = loop.Buffer(args, 0), *sums = loop.Buffer(args, 1);
  SetState(h, h0, s.batch * s.units);
  for (int64_t step = 0; step < s.steps; ++step) {
    const int64_t t = s.Time(step);
    if (std::string error = StepSums(loop, step == 0 && !h0, h, sums); !error.empty()) return error;
    ForCells(s, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t at = loop.Units(n, t), state = n * s.units;
      RunCells(RnnCells{args.inputs[0].as<float>() + at, sums + state, args.outputs[0].as<float>() + at,
                        h + state, s.relu},
               s.units, first, count);
    });
  }
  return "";
}

std::string RnnGrad(Loop& loop, const KernelArgs& args) {
  const RecurrentShape& s = loop.s;
  float *dh = args.outputs[1].as<float>(), *dgates = loop.Buffer(args, 0);
  SetState(dh, nullptr, s.batch * s.units);
  for (int64_t step = s.steps; step-- > 0;) {
    const int64_t t = s.Time(step);
    ForCells(s, [&](int64_t n, int64_t first, int64_t count) {
      const int64_t at = loop.Units(n, t), state = n * s.units;
      RunCells(RnnGradCells{args.inputs[0].as<float>() + at, args.inputs[2].as<float>() + at, dh + state,
                            dgates + state},
               s.units, first, count);
      CopyGates(dgates + state, args.outputs[0].as<float>() + at, 1, s.units, first, count);
    });
    if (std::string error = loop.product->Run(dgates, dh); !error.empty()) return error;
  }
  return "";
}

using RunLoop = std::string (*)(Loop&, const KernelArgs&);

// The product of a step. Forward: the state times all weights. Backward: the gradient of these
// products times the transposed weights (Gru: rows of 4 H, added to the result).
StepProduct::Shape ProductOf(const RecurrentShape& s, bool backward) {
  if (!backward) return {s.batch, s.units, s.Width(), s.units, true, false};
  const bool gru = s.gates == 3;
  return {s.batch, s.Width(), s.units, gru ? 4 * s.units : s.Width(), false, gru};
}

std::unique_ptr<Kernel> Create(const DnnlContext& context, const KernelSite& site, bool backward, RunLoop run,
                               std::string* why) {
  const auto shape = RecurrentShapeOf(site, why);
  if (!shape) return nullptr;
  if (shape->batch == 0 || shape->units == 0) return Refuse(why, "an empty tensor");
  const StepProduct::Shape product = ProductOf(*shape, backward);
  const size_t weights_input = FindRecurrentSignature(site.node->op)->inputs.find('W');
  Loop loop{*shape, {}, {product.row_stride, backward ? 0 : product.columns}};
  auto made =
      StepProduct::Create(context, product, site.threads, site.workspace_bytes - loop.BufferBytes(), why);
  if (!made) return nullptr;
  loop.product = std::move(made);
  const int64_t bytes = loop.product->WorkspaceBytes() + loop.BufferBytes();
  const std::string describe = loop.product->name() + ", " + std::to_string(loop.product->threads()) +
                               " threads, " + WorkspaceText(bytes);
  return MakeKernel(
      [loop = std::move(loop), run, weights_input](const KernelArgs& args) mutable -> std::string {
        const ThreadScope scope(loop.product->threads());
        const float* weights = args.inputs[weights_input].as<float>();
        if (std::string error = loop.product->Pack(weights, args.workspace.data.as<std::byte>());
            !error.empty())
          return error;
        return run(loop, args);
      },
      bytes, describe);
}

}  // namespace

void RegisterCpuRecurrent(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context) {
  const auto add = [&](const std::string& op, const std::string& name, bool backward, RunLoop run) {
    registry.Add(op, {"cpu." + name, [context, backward, run](const KernelSite& site, std::string* why) {
                        return Create(*context, site, backward, run, why);
                      }});
  };
  add("Lstm", "lstm", false, Lstm);
  add("LstmGrad", "lstm_grad", true, LstmGrad);
  add("Gru", "gru", false, Gru);
  add("GruGrad", "gru_grad", true, GruGrad);
  add("Rnn", "rnn", false, Rnn);
  add("RnnGrad", "rnn_grad", true, RnnGrad);
}

}  // namespace act
