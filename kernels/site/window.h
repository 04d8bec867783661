// The geometry that convolutions and poolings share: a window that slides over channels-last
// activations.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

// Always has three spatial axes. Those that the tensors lack come first and have extent 1.
struct Window {
  using Triple = std::array<int64_t, 3>;
  int rank = 0;          // spatial axes of the tensors: 1..3
  int64_t batch = 0;     // N
  int64_t channels = 0;  // of the input
  Triple in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  Triple stride{1, 1, 1}, dilation{1, 1, 1};
  Triple pad{}, pad_end{};  // may be negative at the end

  int64_t InPixels() const { return in[0] * in[1] * in[2]; }
  int64_t OutPixels() const { return out[0] * out[1] * out[2]; }
  int64_t KernelPixels() const { return kernel[0] * kernel[1] * kernel[2]; }
  // The input coordinate that output o reads at window position k. May lie outside 0..in-1.
  int64_t Input(int axis, int64_t o, int64_t k) const {
    return o * stride[static_cast<size_t>(axis)] - pad[static_cast<size_t>(axis)] +
           k * dilation[static_cast<size_t>(axis)];
  }
  bool Inside(int axis, int64_t i) const { return i >= 0 && i < in[static_cast<size_t>(axis)]; }
  // Window positions of output o along one axis that lie inside the input (or inside input
  // and pads).
  int64_t Count(int axis, int64_t o, bool include_pad) const;
  // 1 / the number of elements that output pixel (o0, o1, o2) averages. 0 if there are none.
  double AverageScale(int64_t o0, int64_t o1, int64_t o2, bool include_pad) const;
};

// From `strides`, `dilations`, `pads`, the dims of x [N,S..,C] and y [N,O..,M], and the window
// [K..]. Nullopt, with the reason in *why, if ranks, batch sizes or attributes do not fit together.
std::optional<Window> WindowOf(const Attributes& attrs, const std::vector<int64_t>& x_dims,
                               const std::vector<int64_t>& y_dims, std::span<const int64_t> kernel,
                               std::string* why);

// A convolution: x [N,S..,C], w [M,C/group,K..], y [N,O..,M].
struct ConvShape : Window {
  int64_t group = 1;
  int64_t out_channels = 0;  // M
  int64_t GroupIn() const { return channels / group; }
  int64_t GroupOut() const { return out_channels / group; }
  // Whether this is a matrix product: each output pixel reads the one input pixel at its place,
  // with all channels.
  bool IsPointwise() const {
    return KernelPixels() == 1 && group == 1 && in == out && pad == Triple{} && stride == Triple{1, 1, 1};
  }
};
// Of float32 alone.
std::optional<ConvShape> ConvShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& w,
                                     const TensorView& y, std::string* why);
// The same where x and y may each be bfloat16 too.
std::optional<ConvShape> MixedConvShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& w,
                                          const TensorView& y, std::string* why);

// The pooling of x into y by the node's `kernel_shape`. Both are float32, or both bfloat16.
std::optional<Window> PoolShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                  std::string* why);
// The window of the operators MaxPool and MaxPoolGrad, whose index (of the dims of y) can hold every
// position of the window: u8 or i32.
std::optional<Window> MaxPoolShapeOf(const KernelSite& site, std::string* why);
std::optional<Window> MaxPoolGradShapeOf(const KernelSite& site, std::string* why);

}  // namespace act
