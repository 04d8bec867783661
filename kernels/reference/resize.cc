#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/resize_shape.h"
#include "kernels/site/strided.h"

namespace act {
namespace {

// The input coordinate for output o, by ONNX's Resize. Computed in float32, as the frameworks do:
// if o / scale is an integer in exact arithmetic, it must not fall just below it.
float Coordinate(const std::string& mode, int64_t o, int64_t in, int64_t out, float scale) {
  const auto x = static_cast<float>(o);
  if (mode == "align_corners")
    return out == 1 ? 0.0f : x * static_cast<float>(in - 1) / static_cast<float>(out - 1);
  if (mode == "asymmetric") return x / scale;
  if (mode == "pytorch_half_pixel" && out == 1) return 0.0f;
  return (x + 0.5f) / scale - 0.5f;
}

float Nearest(const std::string& mode, float x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5f);
  return std::ceil(x - 0.5f);
}

// Calls f(output element, input element, weight) for each input that an output mixes.
template <class F>
void ForEachPair(const ResizeShape& s, F f) {
  int64_t out = 0;
  for (int64_t n = 0; n < s.batch; ++n)
    for (const ResizeAxis::Tap& t0 : s.axes[0].taps)
      for (const ResizeAxis::Tap& t1 : s.axes[1].taps)
        for (const ResizeAxis::Tap& t2 : s.axes[2].taps)
          for (int64_t c = 0; c < s.channels; ++c, ++out)
            for (int corner = 0; corner < 8; ++corner) {
              const auto weight = [corner](int bit, const ResizeAxis::Tap& t) {
                return corner & bit ? double{t.t} : 1 - double{t.t};
              };
              const double w = weight(4, t0) * weight(2, t1) * weight(1, t2);
              if (w == 0) continue;
              const int64_t i0 = corner & 4 ? t0.high : t0.low, i1 = corner & 2 ? t1.high : t1.low,
                            i2 = corner & 1 ? t2.high : t2.low;
              f(out, (((n * s.axes[0].in + i0) * s.axes[1].in + i1) * s.axes[2].in + i2) * s.channels + c, w);
            }
}

std::unique_ptr<Kernel> Resize(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* x = args.inputs[0].as<float>();
    float* y = args.outputs[0].as<float>();
    std::fill_n(y, args.outputs[0].elements, 0.0f);
    ForEachPair(s, [&](int64_t out, int64_t in, double w) { y[out] += static_cast<float>(w * x[in]); });
    return "";
  });
}

std::unique_ptr<Kernel> ResizeGrad(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const float* dy = args.inputs[0].as<float>();
    float* dx = args.outputs[0].as<float>();
    std::fill_n(dx, args.outputs[0].elements, 0.0f);
    ForEachPair(s, [&](int64_t out, int64_t in, double w) { dx[in] += static_cast<float>(w * dy[out]); });
    return "";
  });
}

}  // namespace

std::optional<ResizeShape> ResizeShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                         std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  if (x.dtype != DType::kFloat32 || y.dtype != DType::kFloat32) return no("float32 only");
  const size_t rank = x.dims.size() - 2;
  const std::vector<double> scales = attrs.Floats("scales");
  if (x.dims.size() < 3 || x.dims.size() > 5 || y.dims.size() != x.dims.size() || x.dims[0] != y.dims[0] ||
      x.dims.back() != y.dims.back() || scales.size() != rank)
    return no("no resize of " + std::to_string(scales.size()) + " axes takes " + DimsText(x.dims) + " to " +
              DimsText(y.dims));
  const std::string mode = attrs.String("mode", "nearest"),
                    coordinates = attrs.String("coordinate_mode", "half_pixel"),
                    nearest = attrs.String("nearest_mode", "round_prefer_floor");
  if (mode != "nearest" && mode != "linear") return no("no mode '" + mode + "'");
  ResizeShape s;
  s.batch = x.dims[0];
  s.channels = x.dims.back();
  s.linear = mode == "linear";
  for (ResizeAxis& axis : s.axes) axis.taps.resize(1);
  if (y.elements == 0) {
    s.batch = 0;
    return s;
  }
  if (x.elements == 0) return no("an empty tensor cannot be enlarged");
  for (size_t a = 0; a < rank; ++a) {
    ResizeAxis& axis = s.axes[3 - rank + a];
    const int64_t in = x.dims[1 + a], out = y.dims[1 + a];
    if (!(scales[a] > 0)) return no("scales must be positive");
    axis.in = in;
    axis.taps.resize(static_cast<size_t>(out));
    for (int64_t o = 0; o < out; ++o) {
      float at = Coordinate(coordinates, o, in, out, static_cast<float>(scales[a]));
      if (!s.linear) at = Nearest(nearest, at);
      at = std::clamp(at, 0.0f, static_cast<float>(in - 1));
      ResizeAxis::Tap& tap = axis.taps[static_cast<size_t>(o)];
      tap.low = std::min(static_cast<int64_t>(at), in - 1);
      tap.high = std::min(tap.low + 1, in - 1);
      tap.t = s.linear ? at - static_cast<float>(tap.low) : 0.0f;
      if (!s.linear) tap.high = tap.low;
    }
  }
  return s;
}

void RegisterReferenceResize(KernelRegistry& registry) {
  registry.Add("Resize", {"reference.resize", Resize});
  registry.Add("ResizeGrad", {"reference.resize_grad", ResizeGrad});
}

}  // namespace act
