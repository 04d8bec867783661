#include <algorithm>
#include <array>

#include "tests/fake_cuda/libraries.h"

namespace act::fake {
namespace {

using cuda::ConvolutionDirection;
using cuda::ConvolutionProblem;
using Axes = std::array<int64_t, 3>;

// With three spatial axes, of which the first ones are 1 if the problem has fewer.
struct Geometry {
  int64_t samples = 0, groups = 1, in_channels = 0, out_channels = 0;  // channels of a group
  Axes in = {1, 1, 1}, out = {1, 1, 1}, window = {1, 1, 1};
  Axes stride = {1, 1, 1}, dilation = {1, 1, 1}, pad = {0, 0, 0};

  static int64_t Product(const Axes& a) { return a[0] * a[1] * a[2]; }
  int64_t taps() const { return Product(window); }
};

Geometry GeometryOf(const ConvolutionProblem& p) {
  Geometry g;
  const size_t axes = p.x.size() - 2;
  for (size_t i = 0; i < axes; ++i) {
    const size_t at = 3 - axes + i;
    g.in[at] = p.x[1 + i];
    g.out[at] = p.y[1 + i];
    g.window[at] = p.w[1 + i];
    g.stride[at] = p.strides[i];
    g.dilation[at] = p.dilations[i];
    g.pad[at] = p.pads_begin[i];
  }
  g.samples = p.x.front();
  g.groups = p.groups;
  g.in_channels = p.x.back() / p.groups;
  g.out_channels = p.y.back() / p.groups;
  return g;
}

// What is wrong with the problem's numbers, or an empty string.
std::string Check(const ConvolutionProblem& p) {
  const size_t rank = p.x.size();
  if (rank < 3 || rank > 5 || p.w.size() != rank || p.y.size() != rank) return "x, w and y differ in rank";
  const size_t axes = rank - 2;
  if (p.strides.size() != axes || p.dilations.size() != axes || p.pads_begin.size() != axes ||
      p.pads_end.size() != axes)
    return "a number for each spatial axis is missing";
  if (p.groups < 1 || p.x.back() != p.groups * p.w.back() || p.y.back() != p.w.front() ||
      p.y.back() % p.groups != 0 || p.x.front() != p.y.front())
    return "channels, groups and samples do not fit";
  for (size_t i = 0; i < axes; ++i) {
    const int64_t reach = p.dilations[i] * (p.w[1 + i] - 1) + 1;
    if (p.y[1 + i] != (p.x[1 + i] + p.pads_begin[i] + p.pads_end[i] - reach) / p.strides[i] + 1)
      return "y has another size on spatial axis " + std::to_string(i);
  }
  return "";
}

// Calls f(pixel of y, tap of the window, pixel of x) wherever a window of `sample` meets x.
template <class F>
void ForEachTap(const Geometry& g, int64_t sample, F&& f) {
  const auto taps = [&](int64_t pixel, const Axes& o) {
    for (int64_t tap = 0; tap < g.taps(); ++tap) {
      const Axes t = {tap / (g.window[1] * g.window[2]), tap / g.window[2] % g.window[1], tap % g.window[2]};
      Axes at;
      bool inside = true;
      for (size_t i = 0; i < 3; ++i) {
        at[i] = o[i] * g.stride[i] + t[i] * g.dilation[i] - g.pad[i];
        inside = inside && at[i] >= 0 && at[i] < g.in[i];
      }
      if (inside) f(pixel, tap, ((sample * g.in[0] + at[0]) * g.in[1] + at[1]) * g.in[2] + at[2]);
    }
  };
  int64_t pixel = sample * Geometry::Product(g.out);
  for (int64_t a = 0; a < g.out[0]; ++a)
    for (int64_t b = 0; b < g.out[1]; ++b)
      for (int64_t c = 0; c < g.out[2]; ++c) taps(pixel++, {a, b, c});
}

// Weights [tap][group][from][to] in double, of which `to` channels are the inner loop.
class Weights {
 public:
  Weights(const Geometry& g, bool to_outputs)
      : g_(g),
        to_outputs_(to_outputs),
        from_(to_outputs ? g.in_channels : g.out_channels),
        to_(to_outputs ? g.out_channels : g.in_channels),
        values_(static_cast<size_t>(g.taps() * g.groups * from_ * to_)) {}

  double* Row(int64_t tap, int64_t group, int64_t from) {
    return &values_[static_cast<size_t>(((tap * g_.groups + group) * from_ + from) * to_)];
  }
  // Calls f(element of w, the double of it).
  template <class F>
  void ForEach(float* w, F&& f) {
    for (int64_t group = 0; group < g_.groups; ++group)
      for (int64_t m = 0; m < g_.out_channels; ++m)
        for (int64_t tap = 0; tap < g_.taps(); ++tap)
          for (int64_t c = 0; c < g_.in_channels; ++c)
            f(w[((group * g_.out_channels + m) * g_.taps() + tap) * g_.in_channels + c],
              to_outputs_ ? Row(tap, group, c)[m] : Row(tap, group, m)[c]);
  }
  void Read(const float* w) {
    ForEach(const_cast<float*>(w), [](float& element, double& value) { value = double{element}; });
  }
  void Write(float* w) {
    ForEach(w, [](float& element, double& value) { element = static_cast<float>(value); });
  }

 private:
  const Geometry& g_;
  const bool to_outputs_;
  const int64_t from_, to_;
  std::vector<double> values_;
};

// sum[i] += factor * row[i]
void Accumulate(double* sum, double factor, const double* row, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += factor * row[i];
}

void Forward(const Geometry& g, const float* x, const float* w, float* y) {
  Weights weights(g, true);
  weights.Read(w);
  const int64_t pixels = Geometry::Product(g.out), x_row = g.groups * g.in_channels,
                y_row = g.groups * g.out_channels;
  std::vector<double> sums(static_cast<size_t>(pixels * y_row));
  for (int64_t n = 0; n < g.samples; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0);
    ForEachTap(g, n, [&](int64_t out, int64_t tap, int64_t in) {
      for (int64_t group = 0; group < g.groups; ++group)
        for (int64_t c = 0; c < g.in_channels; ++c)
          Accumulate(&sums[static_cast<size_t>((out - n * pixels) * y_row + group * g.out_channels)],
                     double{x[in * x_row + group * g.in_channels + c]}, weights.Row(tap, group, c),
                     g.out_channels);
    });
    for (size_t i = 0; i < sums.size(); ++i)
      y[n * pixels * y_row + static_cast<int64_t>(i)] = static_cast<float>(sums[i]);
  }
}

void InputGradient(const Geometry& g, float* dx, const float* w, const float* dy) {
  Weights weights(g, false);
  weights.Read(w);
  const int64_t pixels = Geometry::Product(g.in), x_row = g.groups * g.in_channels,
                y_row = g.groups * g.out_channels;
  std::vector<double> sums(static_cast<size_t>(pixels * x_row));
  for (int64_t n = 0; n < g.samples; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0);
    ForEachTap(g, n, [&](int64_t out, int64_t tap, int64_t in) {
      for (int64_t group = 0; group < g.groups; ++group)
        for (int64_t m = 0; m < g.out_channels; ++m)
          Accumulate(&sums[static_cast<size_t>((in - n * pixels) * x_row + group * g.in_channels)],
                     double{dy[out * y_row + group * g.out_channels + m]}, weights.Row(tap, group, m),
                     g.in_channels);
    });
    for (size_t i = 0; i < sums.size(); ++i)
      dx[n * pixels * x_row + static_cast<int64_t>(i)] = static_cast<float>(sums[i]);
  }
}

void WeightGradient(const Geometry& g, const float* x, float* dw, const float* dy) {
  Weights sums(g, false);
  const int64_t x_row = g.groups * g.in_channels, y_row = g.groups * g.out_channels;
  std::vector<double> row(static_cast<size_t>(g.in_channels));
  for (int64_t n = 0; n < g.samples; ++n)
    ForEachTap(g, n, [&](int64_t out, int64_t tap, int64_t in) {
      for (int64_t group = 0; group < g.groups; ++group) {
        std::copy_n(x + in * x_row + group * g.in_channels, g.in_channels, row.begin());
        for (int64_t m = 0; m < g.out_channels; ++m)
          Accumulate(sums.Row(tap, group, m), double{dy[out * y_row + group * g.out_channels + m]},
                     row.data(), g.in_channels);
      }
    });
  sums.Write(dw);
}

// What Serialize writes. Other problems than the one of the text have their numbers by chance alone.
std::string TextOf(const ConvolutionProblem& p, const std::string& library, int64_t workspace_bytes,
                   int engine) {
  std::string text = library + " loops " + std::to_string(static_cast<int>(p.direction));
  for (const auto* list : {&p.x, &p.w, &p.y, &p.strides, &p.dilations, &p.pads_begin, &p.pads_end})
    for (const int64_t number : *list) text += " " + std::to_string(number);
  return text + " workspace " + std::to_string(workspace_bytes) + " engine " + std::to_string(engine);
}

int64_t Elements(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  return count;
}

}  // namespace

std::vector<std::unique_ptr<cuda::LibraryCall>> Convolutions::Find(const ConvolutionProblem& problem,
                                                                   int64_t limit, size_t most,
                                                                   std::string* why) {
  ++searched_;
  std::vector<std::unique_ptr<cuda::LibraryCall>> found;
  if (options_.no_convolutions) {
    *why = "the environment asks the fake to refuse convolutions";
    return found;
  }
  *why = Check(problem);
  if (!why->empty()) return found;
  for (int i = 0; i < options_.engines && found.size() < most; ++i) {
    auto call = Engine(i, problem, limit, why);
    if (!call) return {};
    found.push_back(std::move(call));
  }
  return found;
}

std::unique_ptr<cuda::LibraryCall> Convolutions::Engine(int number, const ConvolutionProblem& problem,
                                                        int64_t limit, std::string* why) {
  LoopCall call;
  call.name = "convolution";
  call.alignment = problem.alignment;
  call.text = TextOf(problem, Key(), WorkspaceBytes(problem), number);
  call.wait_ms = 20 * (options_.engines - 1 - number);
  call.floats[0] = Elements(problem.x);
  call.floats[1] = Elements(problem.w);
  call.floats[2] = Elements(problem.y);
  for (int i = 0; i < 3; ++i) call.bfloat16[i] = problem.math == cuda::FloatMath::kBFloat16;
  constexpr int kResults[] = {2, 0, 1};
  call.result = kResults[static_cast<int>(problem.direction)];
  call.accumulates = problem.accumulates;
  call.compute = [g = GeometryOf(problem), direction = problem.direction](float* const operands[4]) {
    float *x = operands[0], *w = operands[1], *y = operands[2];
    switch (direction) {
      case ConvolutionDirection::kForward:
        return Forward(g, x, w, y);
      case ConvolutionDirection::kInputGradient:
        return InputGradient(g, x, w, y);
      case ConvolutionDirection::kWeightGradient:
        return WeightGradient(g, x, w, y);
    }
  };
  return MakeCall(driver_, std::move(call), WorkspaceBytes(problem), limit, why);
}

std::unique_ptr<cuda::LibraryCall> Convolutions::Load(const ConvolutionProblem& problem, int64_t limit,
                                                      std::span<const std::byte> engine, std::string* why) {
  ++loaded_;
  const std::string text(reinterpret_cast<const char*>(engine.data()), engine.size());
  for (int i = 0; i < options_.engines; ++i)
    if (text == TextOf(problem, Key(), WorkspaceBytes(problem), i)) return Engine(i, problem, limit, why);
  *why = "the fake's engine is damaged";
  return nullptr;
}

}  // namespace act::fake
