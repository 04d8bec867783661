#include "kernels/site/window.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/site/float_types.h"
#include "kernels/site/strided.h"

namespace act {
namespace {

// Larger strides, pads or extents could make the arithmetic on coordinates overflow.
constexpr int64_t kMaxExtent = int64_t{1} << 31;

// Of a pool's window that is larger than its input.
constexpr int64_t kMostPaddedTaps = 1 << 12;

bool AllWithin(const std::vector<int64_t>& values, int64_t low, int64_t high) {
  return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v >= low && v <= high; });
}

std::nullopt_t No(std::string* why, std::string reason) {
  if (why) *why = std::move(reason);
  return std::nullopt;
}

}  // namespace

int64_t Window::Count(int axis, int64_t o, bool include_pad) const {
  const auto a = static_cast<size_t>(axis);
  int64_t count = 0;
  for (int64_t k = 0; k < kernel[a]; ++k) {
    const int64_t i = Input(axis, o, k);
    count += include_pad ? i < in[a] + pad_end[a] : Inside(axis, i);
  }
  return count;
}

double Window::AverageScale(int64_t o0, int64_t o1, int64_t o2, bool include_pad) const {
  const int64_t count = Count(0, o0, include_pad) * Count(1, o1, include_pad) * Count(2, o2, include_pad);
  return count ? 1.0 / static_cast<double>(count) : 0.0;
}

std::optional<Window> WindowOf(const Attributes& attrs, const std::vector<int64_t>& x_dims,
                               const std::vector<int64_t>& y_dims, std::span<const int64_t> kernel,
                               std::string* why) {
  const size_t rank = kernel.size();
  if (rank < 1 || rank > 3) return No(why, "1 to 3 spatial axes, not " + std::to_string(rank));
  if (x_dims.size() != rank + 2 || y_dims.size() != rank + 2 || x_dims[0] != y_dims[0])
    return No(why, "x " + DimsText(x_dims) + " and y " + DimsText(y_dims) + " do not fit a window of " +
                       std::to_string(rank) + " axes");
  const std::vector<int64_t> ones(rank, 1), zeros(2 * rank, 0);
  const std::vector<int64_t> strides = attrs.Ints("strides", ones), dilations = attrs.Ints("dilations", ones),
                             pads = attrs.Ints("pads", zeros);
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank)
    return No(why, "strides, dilations or pads have the wrong number of entries");
  if (!AllWithin(strides, 1, kMaxExtent) || !AllWithin(dilations, 1, kMaxExtent) ||
      !AllWithin(pads, -kMaxExtent, kMaxExtent) || !AllWithin(x_dims, 0, kMaxExtent) ||
      !AllWithin(y_dims, 0, kMaxExtent) || !AllWithin({kernel.begin(), kernel.end()}, 1, kMaxExtent))
    return No(why, "an extent, stride, dilation or pad is out of range");
  Window w;
  w.rank = static_cast<int>(rank);
  w.batch = x_dims[0];
  w.channels = x_dims.back();
  for (size_t a = 0; a < rank; ++a) {
    const size_t to = 3 - rank + a;
    w.in[to] = x_dims[1 + a];
    w.out[to] = y_dims[1 + a];
    w.kernel[to] = kernel[a];
    w.stride[to] = strides[a];
    w.dilation[to] = dilations[a];
    w.pad[to] = pads[a];
    w.pad_end[to] = pads[rank + a];
  }
  return w;
}

std::optional<ConvShape> ConvShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& w,
                                     const TensorView& y, std::string* why) {
  if (x.dtype != DType::kFloat32 || w.dtype != DType::kFloat32 || y.dtype != DType::kFloat32)
    return No(why, "float32 only");
  return MixedConvShapeOf(attrs, x, w, y, why);
}

std::optional<ConvShape> MixedConvShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& w,
                                          const TensorView& y, std::string* why) {
  const auto allowed = [](DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; };
  if (!allowed(x.dtype) || w.dtype != DType::kFloat32 || !allowed(y.dtype))
    return No(why, "float32 weights, float32 or bfloat16 activations only");
  if (w.dims.size() < 3) return No(why, "weights " + DimsText(w.dims) + " are not [M,C/group,K..]");
  const auto window = WindowOf(attrs, x.dims, y.dims, std::span(w.dims).subspan(2), why);
  if (!window) return std::nullopt;
  ConvShape s;
  static_cast<Window&>(s) = *window;
  s.group = attrs.Int("group", 1);
  s.out_channels = y.dims.back();
  if (s.group < 1 || s.channels % s.group != 0 || s.out_channels % s.group != 0 ||
      w.dims[0] != s.out_channels || w.dims[1] != s.GroupIn())
    return No(why, "weights " + DimsText(w.dims) + " with " + std::to_string(s.group) +
                       " groups do not take " + std::to_string(s.channels) + " channels to " +
                       std::to_string(s.out_channels));
  return s;
}

std::optional<Window> PoolShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                  std::string* why) {
  if (x.dtype != y.dtype || !IsFloat32OrBFloat16(x.dtype))
    return No(why, "float32 on both sides, or bfloat16");
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  const auto window = WindowOf(attrs, x.dims, y.dims, kernel, why);
  if (!window) return std::nullopt;
  if (x.dims.back() != y.dims.back()) return No(why, "x and y differ in channels");
  // No tensor bounds the taps of a pool, and kernels visit each of them.
  int64_t taps = 1, elements = 1;
  for (size_t a = 0; a < 3; ++a) {
    taps = SaturatingMul(taps, window->kernel[a]);
    elements = SaturatingMul(elements, window->in[a]);
  }
  if (taps > std::max(kMostPaddedTaps, elements))
    return No(why, "a window of " + std::to_string(taps) + " taps over " + std::to_string(elements) +
                       " elements");
  return window;
}

static std::optional<Window> WithIndex(const std::optional<Window>& window, const TensorView& index,
                                       const TensorView& y, std::string* why) {
  if (!window) return window;
  const bool fits = index.dims == y.dims && (index.dtype == DType::kInt32 ||
                                             (index.dtype == DType::kUint8 && window->KernelPixels() <= 256));
  return fits ? window : No(why, "index must be u8 (windows of at most 256) or i32, with the dims of y");
}

std::optional<Window> MaxPoolShapeOf(const KernelSite& site, std::string* why) {
  const TensorView& y = site.outputs[0];
  const auto window = PoolShapeOf(site.node->attrs, site.inputs[0], y, why);
  const bool indexed = site.outputs.size() > 1 && site.outputs[1].bytes > 0;
  return indexed ? WithIndex(window, site.outputs[1], y, why) : window;
}

std::optional<Window> MaxPoolGradShapeOf(const KernelSite& site, std::string* why) {
  const TensorView &dy = site.inputs[0], &index = site.inputs[1];
  return WithIndex(PoolShapeOf(site.node->attrs, site.outputs[0], dy, why), index, dy, why);
}

}  // namespace act
