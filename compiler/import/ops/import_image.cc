// Operators that put pixels together from blocks.
#include <algorithm>

#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// Col2Im's blocks over an image: axis d of the block at step l covers the positions
// l * strides[d] - pads[d] + k * dilations[d], k < block[d].
struct Blocks {
  Ints image, block, dilations, pads, strides;
  size_t axes() const { return image.size(); }
  // How many blocks fit on axis d.
  int64_t Steps(size_t d) const {
    const int64_t room = image[d] + pads[d] + pads[d + axes()] - dilations[d] * (block[d] - 1) - 1;
    return room < 0 ? 0 : room / strides[d] + 1;
  }
};

llvm::Expected<Blocks> ReadBlocks(const NodeContext& c) {
  ACT_TRY(const auto image, c.Integers(1));
  ACT_TRY(const auto block, c.Integers(2));
  if (!image || !block || image->empty() || image->size() != block->size())
    return c.Fail("needs image_shape and block_shape of as many axes");
  const size_t axes = image->size();
  const Blocks b{*image, *block, c.attrs.Ints("dilations", Ints(axes, 1)),
                 c.attrs.Ints("pads", Ints(2 * axes, 0)), c.attrs.Ints("strides", Ints(axes, 1))};
  if (b.dilations.size() != axes || b.pads.size() != 2 * axes || b.strides.size() != axes)
    return c.Fail("dilations, pads and strides must have entries for each axis of the image");
  const auto ok = [](int64_t n, int64_t least) { return n >= least && n <= INT32_MAX; };
  for (size_t d = 0; d < axes; ++d)
    if (!ok(b.image[d], 0) || !ok(b.block[d], 1) || !ok(b.dilations[d], 1) || !ok(b.strides[d], 1) ||
        !ok(b.pads[d], 0) || !ok(b.pads[d + axes], 0))
      return c.Fail("block_shape, dilations and strides must be positive, image_shape and pads not negative");
  return b;
}

// For each element of a channel's blocks, [block.., steps..] row-major: the pixel where it belongs;
// -1 in the padding.
Ints Pixels(const Blocks& b, int64_t blocks, int64_t steps) {
  Ints pixels(static_cast<size_t>(blocks * steps), 0);
  int64_t block_after = blocks, steps_after = steps;
  for (size_t d = 0; d < b.axes(); ++d) {
    block_after /= b.block[d];
    const int64_t steps_of_axis = std::max<int64_t>(b.Steps(d), 1);
    steps_after /= steps_of_axis;
    for (size_t i = 0; i < pixels.size(); ++i) {
      const auto element = static_cast<int64_t>(i);
      const int64_t k = element / steps / block_after % b.block[d],
                    l = element % steps / steps_after % steps_of_axis;
      const int64_t at = l * b.strides[d] - b.pads[d] + k * b.dilations[d];
      pixels[i] = pixels[i] < 0 || at < 0 || at >= b.image[d] ? -1 : pixels[i] * b.image[d] + at;
    }
  }
  return pixels;
}

// Each pixel is the sum of the blocks' elements that lie on it: a scatter to known places, whose
// gradient is a lookup.
llvm::Error ImportCol2Im(NodeContext& c) {
  ACT_TRY(const Blocks b, ReadBlocks(c));
  const Dims& from = c.DimsOf(0);
  int64_t block = 1, steps = 1, size = 1;
  for (size_t d = 0; d < b.axes(); ++d) {
    block = SaturatingMul(block, b.block[d]);
    steps = SaturatingMul(steps, b.Steps(d));
    size = SaturatingMul(size, b.image[d]);
  }
  const int64_t count = SaturatingMul(block, steps);
  if (from.size() != 3 || !from[1].IsFixed() || from[1].fixed % block != 0 || from[2] != Dim(steps))
    return c.Fail("input " + ToString(from) + " is not [N, C * " + std::to_string(block) + ", " +
                      std::to_string(steps) + "], as image_shape and block_shape say",
                  c.importer.torchscript ? "PyTorch's TorchScript exporter mixes up the pads of F.fold where "
                                           "they differ by axis; the dynamo exporter does not"
                                         : "");
  if (count > kMaxKnownElements)
    return c.Fail("has " + std::to_string(count) + " elements a channel in its blocks; " +
                  std::to_string(kMaxKnownElements) + " are supported");
  const Dim channels = from[1].fixed / block;
  Dims dims{from[0], channels};
  dims.insert(dims.end(), b.image.begin(), b.image.end());

  Ints pixels = Pixels(b, block, steps);
  std::vector<uint8_t> live;
  for (int64_t& pixel : pixels) {
    live.push_back(pixel >= 0);
    pixel = std::max<int64_t>(pixel, 0);
  }
  const bool padded = std::find(live.begin(), live.end(), 0) != live.end();
  ACT_TRY(const ValueId columns, c.Value(0));
  ACT_TRY(const ValueId x, c.Reshape(columns, {from[0], channels, count}));
  std::vector<ValueId> operands{
      x, c.builder().Constant("", {DType::kInt64, {1, 1, count}},
                              HostTensor::Copy(pixels.data(), count * ByteSize(DType::kInt64)))};
  if (padded) {
    operands.push_back(kNoValue);
    operands.push_back(
        c.builder().Constant("", {DType::kBool, {count}}, HostTensor::Copy(live.data(), count)));
  }
  Attributes attrs;
  attrs.Set("axis", int64_t{2});
  attrs.Set("reduction", "add");
  ACT_TRY(const ValueId image,
          c.builder().AddTyped("Scatter", operands, {DType::kFloat32, {from[0], channels, size}}, attrs,
                               c.name()));
  return c.Return(c.Reshape(image, std::move(dims)));
}

}  // namespace

const std::vector<ImportEntry>& ImageImports() {
  static const std::vector<ImportEntry> entries = {
      {"Col2Im", 3, 3, ImportCol2Im},
  };
  return entries;
}

}  // namespace act::onnx_import
