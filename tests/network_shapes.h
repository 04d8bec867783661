// The distinct convolutions of well-known networks at 224 x 224, for benchmarks and for the check
// of workspace bounds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/site/strided.h"
#include "runtime/executor/kernel.h"

namespace act {

struct ConvolutionShape {
  int64_t in_channels, out_channels, size, kernel, stride,
      group;  // square images and kernels, padded to keep the size

  auto operator<=>(const ConvolutionShape&) const = default;
  int64_t OutSize() const { return (size - 1) / stride + 1; }
  double Flops(int64_t batch) const {
    return 2.0 * static_cast<double>(batch * OutSize() * OutSize() * out_channels * (in_channels / group)) *
           static_cast<double>(kernel * kernel);
  }
  std::vector<int64_t> In(int64_t batch) const { return {batch, size, size, in_channels}; }
  std::vector<int64_t> Out(int64_t batch) const { return {batch, OutSize(), OutSize(), out_channels}; }
  std::vector<int64_t> Weights() const { return {out_channels, in_channels / group, kernel, kernel}; }
  Attributes Attrs() const {
    Attributes a;
    a.Set("strides", std::vector<int64_t>{stride, stride});
    a.Set("dilations", std::vector<int64_t>{1, 1});
    a.Set("pads", std::vector<int64_t>(4, kernel / 2));
    a.Set("group", group);
    return a;
  }
};

// Shape -> how often the network has it, without the first convolution's gradient in mind.
using Network = std::map<ConvolutionShape, int>;

// ResNet-50 (3, 4, 6, 3) and ResNet-152 (3, 8, 36, 3) have the same shapes.
inline Network ResNet(const std::vector<int>& blocks) {
  Network net{{{3, 64, 224, 7, 2, 1}, 1}};
  int64_t in = 64, size = 56;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      ++net[{in, width, size, 1, 1, 1}];
      ++net[{width, width, size, 3, stride, 1}];
      if (block == 0) ++net[{in, 4 * width, size, 1, stride, 1}];
      size /= stride;
      ++net[{width, 4 * width, size, 1, 1, 1}];
      in = 4 * width;
    }
  }
  return net;
}

inline Network Vgg16() {
  Network net;
  int64_t in = 3, size = 224;
  for (const auto& [width, layers] :
       std::vector<std::pair<int64_t, int>>{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int layer = 0; layer < layers; ++layer, in = width) ++net[{in, width, size, 3, 1, 1}];
    size /= 2;
  }
  return net;
}

inline Network DenseNet121() {
  Network net{{{3, 64, 224, 7, 2, 1}, 1}};
  int64_t in = 64, size = 56;
  for (const int layers : {6, 12, 24, 16}) {
    for (int layer = 0; layer < layers; ++layer, in += 32) {
      ++net[{in, 128, size, 1, 1, 1}];
      ++net[{128, 32, size, 3, 1, 1}];
    }
    if (size == 7) break;
    ++net[{in, in / 2, size, 1, 1, 1}];
    in /= 2;
    size /= 2;
  }
  return net;
}

inline Network MobileNetV2() {
  Network net{{{3, 32, 224, 3, 2, 1}, 1}};
  int64_t in = 32, size = 112;
  // expansion, channels, blocks, stride
  for (const auto& [t, c, n, s] : std::vector<std::tuple<int64_t, int64_t, int, int64_t>>{{1, 16, 1, 1},
                                                                                          {6, 24, 2, 2},
                                                                                          {6, 32, 3, 2},
                                                                                          {6, 64, 4, 2},
                                                                                          {6, 96, 3, 1},
                                                                                          {6, 160, 3, 2},
                                                                                          {6, 320, 1, 1}})
    for (int block = 0; block < n; ++block, in = c) {
      const int64_t wide = in * t, stride = block == 0 ? s : 1;
      if (t > 1) ++net[{in, wide, size, 1, 1, 1}];
      ++net[{wide, wide, size, 3, stride, wide}];
      size /= stride;
      ++net[{wide, c, size, 1, 1, 1}];
    }
  ++net[{320, 1280, 7, 1, 1, 1}];
  return net;
}

// The three operators of a convolution as nodes: "Conv", "ConvGradInput", "ConvGradWeight".
struct ConvolutionNode {
  std::vector<std::vector<int64_t>> inputs;
  std::vector<int64_t> output;
};
inline ConvolutionNode NodeOf(const ConvolutionShape& s, const std::string& op, int64_t batch) {
  if (op == "Conv") return {{s.In(batch), s.Weights()}, s.Out(batch)};
  if (op == "ConvGradInput") return {{s.Out(batch), s.Weights()}, s.In(batch)};
  return {{s.Out(batch), s.In(batch)}, s.Weights()};
}

inline TensorView ViewOf(const std::vector<int64_t>& dims, void* data = nullptr) {
  return {DevicePointer(data), DType::kFloat32, dims, ElementCount(dims), 4 * ElementCount(dims)};
}

}  // namespace act
