// Normalization of a sample by itself, all of which is LayerNorm, and softmax.
#include <algorithm>

#include "compiler/import/ops/batch_norm.h"

namespace act::onnx_import {
namespace {

std::vector<int64_t> AxesFrom(size_t first, size_t rank) {
  std::vector<int64_t> axes;
  for (size_t i = first; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

// A LayerNorm over `axes`, with operands 1 (scale) and 2 (bias, may be left out) in the shape
// `dims`, to which smaller ones are expanded.
llvm::Error ReturnNorm(NodeContext& c, const std::vector<int64_t>& axes, const Dims& dims,
                       Attributes attrs = {}) {
  ACT_TRY(const ValueId x, c.Value(0));
  std::vector<ValueId> operands{x};
  for (size_t i = 1; i < 3 && c.Has(i); ++i) {
    ACT_TRY(ValueId value, c.Value(i));
    if (c.Type(i).Elements() == TensorType{c.Type(i).dtype, dims}.Elements()) {
      ACT_TRY(value, c.Reshape(value, dims));
    } else {
      ACT_TRY(value, c.BroadcastValue(i, dims));
    }
    operands.push_back(value);
  }
  attrs.Set("axes", axes);
  attrs.Set("epsilon", c.attrs.Float("epsilon", 1e-5));
  return c.Return(c.Emit("LayerNorm", operands, attrs));
}

// The outputs after the first, where they are wanted: of LayerNormalization the mean and
// 1 / sqrt(variance + epsilon), of the simplified norm only the second with the mean of squares.
llvm::Error ReturnStatistics(NodeContext& c, ValueId x, const std::vector<int64_t>& axes, bool center) {
  if (!c.WantsOutput(1) && !c.WantsOutput(2)) return llvm::Error::success();
  ValueId centred = x;
  if (center) {
    ACT_TRY(const ValueId mean, c.Emit("ReduceMean", {x}, Over(axes, true)));
    ACT_TRY(centred, c.Emit("Sub", {x, mean}));
    ACT_CHECK_OK(c.Set(1, mean));
  }
  ACT_TRY(const ValueId squares, c.Emit("Square", {centred}));
  ACT_TRY(const ValueId variance, c.Emit("ReduceMean", {squares}, Over(axes, true)));
  const ValueId epsilon = c.builder().Scalar(static_cast<float>(c.attrs.Float("epsilon", 1e-5)));
  ACT_TRY(const ValueId shifted, c.Emit("Add", {variance, epsilon}));
  ACT_TRY(const ValueId deviation, c.Emit("Sqrt", {shifted}));
  ACT_TRY(const ValueId inverse, c.Emit("Reciprocal", {deviation}));
  return c.Set(center ? 2 : 1, inverse);
}

// LayerNormalization, RMSNormalization and ONNX Runtime's name of the latter: over the axes from `axis` on.
llvm::Error ImportLayerNormalization(NodeContext& c) {
  const size_t rank = c.DimsOf(0).size();
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", -1), rank));
  ACT_TRY(const ValueId x, c.Value(0));
  const bool center = c.node.op_type() == "LayerNormalization";
  ACT_CHECK_OK(ReturnStatistics(c, x, AxesFrom(axis, rank), center));
  Attributes attrs;
  attrs.Set("center", int64_t{center});
  // Scale and bias may have different shapes, each of which broadcasts to the normalized axes.
  Dims dims = c.DimsOf(1);
  if (c.Has(2) && c.DimsOf(2) != dims)
    dims.assign(c.DimsOf(0).begin() + static_cast<std::ptrdiff_t>(axis), c.DimsOf(0).end());
  return ReturnNorm(c, AxesFrom(axis, rank), dims, attrs);
}

// One number per channel, in the shape that broadcasts against [N, C, S..].
Dims ChannelDims(NodeContext& c) {
  Dims dims(c.DimsOf(0).size() - 1, Dim(1));
  dims[0] = c.DimsOf(0)[1];
  return dims;
}

// x [N, C, S..], scale and bias [C]: over the spatial axes, each channel a group of its own.
llvm::Error ImportInstanceNormalization(NodeContext& c) {
  const size_t rank = c.DimsOf(0).size();
  if (rank < 3) return c.Fail("needs a spatial axis");
  const Dim channels = c.DimsOf(0)[1];
  if (!channels.IsFixed()) return c.Fail("the number of channels varies with the batch");
  Attributes attrs;
  attrs.Set("groups", channels.fixed);
  attrs.Set("group_axis", int64_t{1});
  return ReturnNorm(c, AxesFrom(2, rank), ChannelDims(c), attrs);
}

// x [N, C, S..], in `num_groups` groups of channels; scale and bias per channel
// (GroupNormalization-21).
llvm::Error ImportGroupNormalization(NodeContext& c) {
  const Dims dims = c.DimsOf(0);
  const int64_t groups = c.attrs.Int("num_groups");
  if (dims.size() < 3 || groups < 1 || !dims[1].IsFixed() || dims[1].fixed % groups != 0)
    return c.Fail("cannot form " + std::to_string(groups) + " groups of the channels of " +
                  ToString(c.Type(0)));
  if (c.DimsOf(1) != Dims{dims[1]})
    return c.Fail("scale and bias must have an entry for each channel (opset 21)");
  Attributes attrs;
  attrs.Set("groups", groups);
  attrs.Set("group_axis", int64_t{1});
  return ReturnNorm(c, AxesFrom(2, dims.size()), ChannelDims(c), attrs);
}

// x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta. The sums are
// computed as a product with a band matrix. So the channels can stay last, and the gradient is a
// product too.
llvm::Error ImportLrn(NodeContext& c) {
  const Dims dims = c.DimsOf(0);
  const int64_t size = c.attrs.Int("size");
  if (dims.size() < 3 || !dims[1].IsFixed() || size < 1 || size > INT32_MAX)
    return c.Fail("cannot sum over " + std::to_string(size) + " channels of " + ToString(c.Type(0)));
  const int64_t channels = dims[1].fixed;
  constexpr int64_t kMostChannels = 4096;
  if (channels > kMostChannels) return c.Fail("has more than " + std::to_string(kMostChannels) + " channels");
  const auto share = static_cast<float>(c.attrs.Float("alpha", 1e-4) / static_cast<double>(size));
  std::vector<float> band(static_cast<size_t>(channels * channels), 0);  // [from channel, to channel]
  for (int64_t to = 0; to < channels; ++to)
    for (int64_t from = std::max<int64_t>(0, to - (size - 1) / 2);
         from <= std::min(channels - 1, to + size / 2); ++from)
      band[static_cast<size_t>(from * channels + to)] = share;
  const ValueId sums_of =
      c.builder().Constant("", {DType::kFloat32, {channels, channels}},
                           HostTensor::Copy(band.data(), static_cast<int64_t>(band.size() * sizeof(float))));
  ACT_TRY(ValueId x, c.Value(0));
  ACT_TRY(x, c.ToChannelsLast(x));
  ACT_TRY(const ValueId squares, c.Emit("Square", {x}));
  ACT_TRY(ValueId base, c.Emit("MatMul", {squares, sums_of}));
  ACT_TRY(base, c.Emit("Add", {base, c.builder().Scalar(static_cast<float>(c.attrs.Float("bias", 1)))}));
  const auto beta = static_cast<float>(c.attrs.Float("beta", .75));
  ACT_TRY(const ValueId factor, c.Emit("Pow", {base, c.builder().Scalar(-beta)}));
  ACT_TRY(const ValueId y, c.Emit("Mul", {x, factor}));
  return c.Return(c.ToChannelsFirst(y));
}

// Our Softmax is over the last axis. ONNX's is over one axis since opset 13, and over all axes from
// `axis` on before.
llvm::Error ImportSoftmax(NodeContext& c) {
  const Dims dims = c.DimsOf(0);
  const size_t rank = dims.size();
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", c.opset() < 13 ? 1 : -1), rank));
  ACT_TRY(const ValueId x, c.Value(0));
  ValueId rows = x;
  std::vector<int64_t> perm = AxesFrom(0, rank);
  if (c.opset() < 13) {
    Dims flat(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
    Dim count(1);
    for (size_t i = axis; i < rank; ++i) count = count * dims[i];
    flat.push_back(count);
    ACT_TRY(rows, c.Reshape(x, flat));
  } else if (axis + 1 < rank) {
    std::swap(perm[axis], perm.back());
    ACT_TRY(rows, c.Transpose(x, perm));
  }
  ACT_TRY(ValueId y, c.Emit(c.node.op_type(), {rows}));
  if (c.opset() < 13) {
    ACT_TRY(y, c.Reshape(y, dims));
  } else if (axis + 1 < rank) {
    ACT_TRY(y, c.Transpose(y, perm));
  }
  Operand result{.type = c.TypeOf(y), .value = y};
  const bool over_classes = axis == 1 && (c.opset() >= 13 || rank == 2);
  if (c.node.op_type() == "LogSoftmax" && over_classes) result.scores = x;
  return c.Set(0, std::move(result));
}

}  // namespace

const std::vector<ImportEntry>& NormalizationImports() {
  static const std::vector<ImportEntry> entries = {
      {"BatchNormalization", 5, 5, ImportBatchNormalization},
      {"BatchNormInternal", 5, 5, ImportBatchNormalization, kMicrosoft},
      {"LayerNormalization", 2, 3, ImportLayerNormalization},
      {"RMSNormalization", 2, 2, ImportLayerNormalization},
      {"SimplifiedLayerNormalization", 2, 2, ImportLayerNormalization},
      {"InstanceNormalization", 3, 3, ImportInstanceNormalization},
      {"GroupNormalization", 3, 3, ImportGroupNormalization},
      {"LRN", 1, 1, ImportLrn},
      {"Softmax", 1, 1, ImportSoftmax},
      {"LogSoftmax", 1, 1, ImportSoftmax},
  };
  return entries;
}

}  // namespace act::onnx_import
