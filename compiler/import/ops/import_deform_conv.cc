// DeformConv: a convolution each of whose taps reads beside its place, where an operand says. It samples the image once
// for each tap and convolves what it found. J. Dai et al., Deformable Convolutional Networks, 2017; with a mask X. Zhu
// et al., Deformable ConvNets v2, 2019.
#include "compiler/import/core/importer.h"
#include "compiler/import/ops/slices.h"
#include "compiler/import/ops/window.h"

namespace act::onnx_import {
namespace {

// Operands x [N, C, H, W], weight [M, C / group, kernel], offset [N, 2 G K, P..], bias?, mask? [N, G K, P..]: K taps at
// each of P places, whose offsets are shared by the channels of each of G parts of C.
struct Deformed {
  Window window;
  Dim batch, channels;
  int64_t parts = 1, taps = 1, rows = 0, columns = 0;

  int64_t Places() const { return rows * columns; }
};

llvm::Expected<Deformed> ReadDeformed(const NodeContext& c) {
  const Dims &x = c.DimsOf(0), &weight = c.DimsOf(1), &offset = c.DimsOf(2);
  if (x.size() != 4 || weight.size() != 4 || offset.size() != 4)
    return c.Fail("needs an image of two axes, its operands are " + ToString(c.Type(0)) + ", " +
                  ToString(c.Type(1)) + " and " + ToString(c.Type(2)));
  Deformed d;
  ACT_TRY(std::vector<int64_t> kernel, KernelOfWeight(c, weight));
  ACT_TRY(d.window, ReadWindow(c, std::move(kernel), x));
  d.batch = x[0];
  d.channels = x[1];
  d.parts = c.attrs.Int("offset_group", 1);
  d.taps = SaturatingMul(d.window.kernel[0], d.window.kernel[1]);
  if (d.parts < 1 || !d.channels.IsFixed() || d.channels.fixed % d.parts != 0)
    return c.Fail("the channels of " + ToString(c.Type(0)) +
                  " cannot be cut into offset_group = " + std::to_string(d.parts) + " parts");
  const auto places = [&](size_t axis) -> int64_t {
    if (!x[axis + 2].IsFixed()) return 0;
    const Window& w = d.window;
    const int64_t whole = SaturatingAdd(x[axis + 2].fixed, SaturatingAdd(w.pads[axis], w.pads[axis + 2]));
    const int64_t reach = SaturatingAdd(SaturatingMul(w.kernel[axis] - 1, w.dilations[axis]), 1);
    return whole < reach ? 0 : (whole - reach) / w.strides[axis] + 1;
  };
  d.rows = places(0);
  d.columns = places(1);
  constexpr int64_t kMostPlaces = 1 << 24;  // whose numbers float32 has, and a constant of the graph holds
  if (SaturatingMul(d.rows, d.columns) > kMostPlaces || d.taps > kMostPlaces)
    return c.Fail("has " + std::to_string(d.rows) + " x " + std::to_string(d.columns) + " places of " +
                  std::to_string(d.taps) + " taps; more than 2^24 are not supported");
  const int64_t of_mask = SaturatingMul(d.parts, d.taps);
  if (d.rows == 0 || d.columns == 0 || offset != Dims{x[0], SaturatingMul(2, of_mask), d.rows, d.columns})
    return c.Fail("offsets " + ToString(c.Type(2)) + " do not fit " + std::to_string(d.rows) + " x " +
                  std::to_string(d.columns) + " places of " + std::to_string(of_mask) + " taps");
  if (c.Has(4) && c.DimsOf(4) != Dims{x[0], of_mask, d.rows, d.columns})
    return c.Fail("the mask " + ToString(c.Type(4)) + " does not fit the offsets " + ToString(c.Type(2)));
  return d;
}

// The columns and rows of `rows` x `columns` places, of which the first is at `first` and the next ones `steps` apart.
llvm::Expected<ValueId> PlacesOf(const NodeContext& c, int64_t rows, int64_t columns,
                                 const std::vector<int64_t>& first, const std::vector<int64_t>& steps,
                                 Dims dims) {
  std::vector<float> numbers;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      numbers.push_back(static_cast<float>(first[1] + column * steps[1]));
      numbers.push_back(static_cast<float>(first[0] + row * steps[0]));
    }
  return c.builder().Constant(
      "", {DType::kFloat32, std::move(dims)},
      HostTensor::Copy(numbers.data(), static_cast<int64_t>(numbers.size() * sizeof(float))));
}

// Where each tap reads: [N G, P, K, 2], in pixels, the column first.
llvm::Expected<ValueId> GridOf(const NodeContext& c, const Deformed& d) {
  const Window& w = d.window;
  ACT_TRY(ValueId offset, c.Value(2));
  ACT_TRY(offset, c.Reshape(offset, {d.batch, d.parts, d.taps, 2, d.Places()}));
  std::vector<SliceRange> swapped = Whole(c.TypeOf(offset).dims);
  swapped[3] = {1, 2, -1};  // ONNX has the row first
  ACT_TRY(offset, SliceOf(c, offset, swapped));
  ACT_TRY(offset, c.Transpose(offset, {0, 1, 4, 2, 3}));
  ACT_TRY(offset, c.Reshape(offset, {d.batch * Dim(d.parts), d.Places(), d.taps, 2}));
  ACT_TRY(const ValueId places,
          PlacesOf(c, d.rows, d.columns, {-w.pads[0], -w.pads[1]}, w.strides, {1, d.Places(), 1, 2}));
  ACT_TRY(const ValueId taps, PlacesOf(c, w.kernel[0], w.kernel[1], {0, 0}, w.dilations, {1, 1, d.taps, 2}));
  ACT_TRY(const ValueId shifted, c.Emit("Add", {offset, places}));
  return c.Emit("Add", {shifted, taps});
}

// [N, P, K, C]: what the taps read. What lies outside the image is 0.
llvm::Expected<ValueId> SampledOf(const NodeContext& c, const Deformed& d) {
  const Dims& image = c.DimsOf(0);
  const Dim width(d.channels.fixed / d.parts), all = d.batch * Dim(d.parts);
  ACT_TRY(const ValueId grid, GridOf(c, d));
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(x, c.Reshape(x, {all, width, image[2], image[3]}));
  ACT_TRY(x, c.ToChannelsLast(x));
  Attributes attrs;
  attrs.Set("mode", std::string("linear"));
  attrs.Set("outside", std::string("zeros"));
  attrs.Set("pixels", int64_t{1});
  ACT_TRY(ValueId y, c.Emit("GridSample", {x, grid}, attrs));
  if (c.Has(4)) {
    ACT_TRY(ValueId mask, c.Value(4));
    ACT_TRY(mask, c.Reshape(mask, {d.batch, d.parts, d.taps, d.Places()}));
    ACT_TRY(mask, c.Transpose(mask, {0, 1, 3, 2}));
    ACT_TRY(mask, c.Reshape(mask, {all, d.Places(), d.taps, 1}));
    ACT_TRY(y, c.Emit("Mul", {y, mask}));
  }
  ACT_TRY(y, c.Reshape(y, {d.batch, d.parts, d.Places(), d.taps, width}));
  ACT_TRY(y, c.Transpose(y, {0, 2, 3, 1, 4}));
  return c.Reshape(y, {d.batch, d.Places(), d.taps, d.channels});
}

llvm::Error ImportDeformConv(NodeContext& c) {
  ACT_TRY(const Deformed d, ReadDeformed(c));
  ACT_TRY(const ValueId sampled, SampledOf(c, d));
  // A convolution of one row of K taps at each of P places.
  const Dims& dims = c.DimsOf(1);
  ACT_TRY(ValueId weight, c.Value(1));
  ACT_TRY(weight, c.Reshape(weight, {dims[0], dims[1], 1, d.taps}));
  Attributes attrs = Window{{1, d.taps}, {1, 1}, {1, 1}, {0, 0, 0, 0}}.ToAttributes();
  attrs.Set("group", c.attrs.Int("group", 1));
  std::vector<ValueId> operands{sampled, weight};
  if (c.Has(3) && c.Number(3) != 0) {
    ACT_TRY(const ValueId bias, c.Value(3));
    operands.push_back(bias);
  }
  ACT_TRY(ValueId y, c.Emit("Conv", std::move(operands), attrs));
  ACT_TRY(y, c.Reshape(y, {d.batch, d.rows, d.columns, dims[0]}));
  return c.Return(c.ToChannelsFirst(y));
}

}  // namespace

const std::vector<ImportEntry>& DeformConvImports() {
  static const std::vector<ImportEntry> entries = {{"DeformConv", 3, 5, ImportDeformConv}};
  return entries;
}

}  // namespace act::onnx_import
