#include "runtime/plan/workspace_rules.h"

#include <algorithm>

#include "runtime/plan/operand_extents.h"
#include "runtime/plan/recurrent_signature.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/workspace.h"

namespace act {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kFloat = 4;
// The number of threads that a bound assumes. oneDNN keeps buffers per thread.
constexpr int64_t kThreads = 16;
// What any primitive may need in addition to its large buffers. Measured: 4 KiB, and 4 KiB
// per thread.
constexpr int64_t kSmallScratch = 128 * kKiB;
// Of a thread, where oneDNN multiplies tiles. Measured: 13 KiB.
constexpr int64_t kTileScratch = 16 * kKiB;

// Buffers of `bytes`, one per thread: for all threads if these take at most `small` bytes,
// otherwise `small` bytes, but at least `at_least` buffers.
int64_t PerThread(int64_t bytes, int64_t at_least, int64_t small) {
  return std::min(SaturatingMul(bytes, kThreads), std::max(SaturatingMul(bytes, at_least), small));
}

// Weights [M,C/group,K..] in oneDNN's blocked layout, which rounds channels up to blocks of 16, and
// depthwise groups likewise. One part in 32 is added because oneDNN may pad rows to keep them from
// falling on the same cache lines.
int64_t PackedWeights(const TensorType& w, int64_t group) {
  const int64_t m = Extent(w, 0) / std::max<int64_t>(group, 1), c = Extent(w, 1);
  const bool depthwise = group > 1 && m <= 1 && c == 1;
  const int64_t channels =
      depthwise ? RoundUp(group, 16) : SaturatingMul(group, SaturatingMul(RoundUp(m, 16), RoundUp(c, 16)));
  const int64_t bytes = SaturatingMul(SaturatingMul(channels, WindowTaps(w)), kFloat);
  return RoundUp(SaturatingAdd(bytes, bytes / 32), 64);
}

// One sample of channels-last `activation`, with a border of `border` pixels on each side.
int64_t Image(const TensorType& activation, int64_t border) {
  int64_t bytes = kFloat;
  for (size_t axis = 1; axis < activation.dims.size(); ++axis) {
    const bool spatial = axis + 1 < activation.dims.size();
    bytes = SaturatingMul(bytes, SaturatingAdd(Extent(activation, axis), spatial ? 2 * border : 0));
  }
  return SaturatingAdd(bytes, 16 * kKiB);
}

bool HasStride(const Node& node) {
  const std::vector<int64_t> strides = node.attrs.Ints("strides");
  return std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
}

int64_t WeightsWorkspace(const TensorType& w, const Node& node) {
  return SaturatingAdd(PackedWeights(w, node.attrs.Int("group", 1)), kSmallScratch);
}

// Rows of coded weights in float32 (kernels/cpu/weight_packing.h).
int64_t DecodedRows(const Graph& graph, const Node& node, const TensorType& w) {
  if (!DecodesOperand(graph, node, 1)) return 0;
  const int64_t row = SaturatingMul(SaturatingMul(Extent(w, 1), WindowTaps(w)), kFloat);
  return std::max(kCodedRowsBytes, SaturatingMul(row, kCodedRows));
}

// The extent of an axis of a product, counted from the last. One that varies with N is without bound.
int64_t ProductExtent(const TensorType& type, size_t from_last) {
  if (type.dims.size() < 2) return 1;
  const Dim& dim = type.dims[type.dims.size() - from_last];
  return dim.IsFixed() ? std::max<int64_t>(dim.fixed, 1) : kTooLarge;
}

// Blocks in float32 (kernels/cpu/product_blocks.h): one of b for all threads; of each thread one of a,
// and of sums if the result is bfloat16.
int64_t WidenedProduct(const Graph& graph, const Node& node) {
  const TensorType& y = TypeOf(graph, node.outputs[0]);
  const int64_t k = ProductExtent(TypeOf(graph, node.inputs[0]), node.attrs.Int("trans_a") != 0 ? 2 : 1);
  const int64_t n = ProductExtent(y, 1);
  const int64_t whole =
      SaturatingMul(SaturatingMul(SaturatingAdd(k, 1), RoundUp(std::min(n, kTooLarge / 2), 64)), kFloat);
  const int64_t depth = std::min(RoundUp(std::min(k, kProductDepth), 16) + 16, kProductDepth + 16);
  int64_t floats = std::max((kProductRows + 16) * depth, 64 * ProductRowFloats(128));
  if (y.dtype == DType::kBFloat16) floats += kProductRows * ProductRowFloats(std::min(n, kProductColumns));
  return SaturatingAdd(std::min(whole, kProductBytes + 16 * kKiB), PerThread(floats * kFloat, 4, 2 * kMiB));
}

// The copy of a float32 factor beside one in bfloat16, in oneDNN's layouts, or of a piece of it. Nothing if it varies
// with N: products in float32 need no copy.
int64_t RoundedFactor(const Graph& graph, const Node& node) {
  const TensorType &a = TypeOf(graph, node.inputs[0]), &b = TypeOf(graph, node.inputs[1]);
  if (a.dtype == b.dtype) return 0;
  const TensorType& factor = a.dtype == DType::kFloat32 ? a : b;
  int64_t bytes = 2;
  for (size_t axis = 0; axis < factor.dims.size(); ++axis) {
    const bool of_matrix = axis + 2 >= factor.dims.size();
    const int64_t extent = std::min(ProductExtent(factor, factor.dims.size() - axis), kTooLarge / 2);
    bytes = SaturatingMul(bytes, of_matrix ? RoundUp(extent, 64) : extent);
  }
  if (bytes <= kRoundedFactorBytes) return bytes;
  const bool weight = b.dtype == DType::kFloat32 && b.rank() == 2 && b.Elements().IsFixed();
  return weight ? kRoundedFactorBytes + kRoundedSumBytes : 0;
}

// The rows of x that `rows` rows of y read at most, and one more than stride rows: along the first
// spatial axis.
int64_t RowsOfX(const TensorType& w, const Node& node, int64_t rows) {
  const std::vector<int64_t> strides = node.attrs.Ints("strides"), dilations = node.attrs.Ints("dilations");
  const int64_t stride = strides.empty() ? 1 : strides[0], dilation = dilations.empty() ? 1 : dilations[0];
  return SaturatingAdd(SaturatingMul(rows, stride), SaturatingMul(Extent(w, 2), dilation));
}

// What a convolution of bfloat16 needs besides weights: float32 copies of a chunk of x and y
// (WidenedConvBytes), or what oneDNN's implementations for AMX keep for each thread, some of an image in
// tiles. `own` bytes for each thread are added.
int64_t BFloat16Buffers(const TensorType& x, const TensorType& y, const TensorType& w, const Node& node,
                        int64_t own) {
  const int64_t sample = SaturatingAdd(SaturatingAdd(Image(x, 1), Image(y, 1)), own);
  const int64_t x_row = Image(x, 0) / std::max<int64_t>(Extent(x, 1), 1),
                y_row = Image(y, 0) / std::max<int64_t>(Extent(y, 1), 1);
  // As many rows as a gradient of x divides at a time: those of one row of y.
  const int64_t row = SaturatingAdd(SaturatingMul(RowsOfX(w, node, 1), x_row),
                                    SaturatingMul(SaturatingAdd(Extent(w, 2), 2), y_row));
  return std::min(SaturatingMul(sample, kThreads),
                  std::max(WidenedConvBytes(WindowTaps(w)), SaturatingMul(row, 4)));
}

// Heads of attention for all threads, if these take little. Otherwise as many as fit: all threads share one head if
// they may.
int64_t ForHeads(const AttentionScratch& scratch, bool may_share) {
  constexpr int64_t kSmall = 8 * kMiB;
  const int64_t apart = SaturatingAdd(scratch.head, scratch.thread);
  if (!may_share) return PerThread(apart, 4, kSmall);
  const int64_t shared = SaturatingAdd(scratch.head, SaturatingMul(scratch.thread, kThreads));
  return std::min(SaturatingMul(apart, kThreads), std::max(shared, kSmall));
}

bool IsBFloat16(const Graph& graph, ValueId id) { return TypeOf(graph, id).dtype == DType::kBFloat16; }

}  // namespace

CappedDim LoopWorkspace(const Graph& graph, const Node& node, const Target& target) {
  std::vector<TensorType> outputs;
  for (const ValueId id : node.outputs) outputs.push_back(TypeOf(graph, id));
  return FusedWorkspaceBound(node.program, outputs, target);
}

CappedDim ConvWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &x = TypeOf(graph, node.inputs[0]), &w = OperandType(graph, node, 1);
  const int64_t weights = SaturatingAdd(WeightsWorkspace(w, node), DecodedRows(graph, node, w));
  if (!IsBFloat16(graph, node.inputs[0])) return weights;
  return SaturatingAdd(weights, BFloat16Buffers(x, TypeOf(graph, node.outputs[0]), w, node, kTileScratch));
}

// With strides, one image of dy at a time is spread out, in a buffer per thread.
CappedDim ConvGradInputWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &dy = TypeOf(graph, node.inputs[0]), &w = OperandType(graph, node, 1);
  const int64_t weights = SaturatingAdd(WeightsWorkspace(w, node), DecodedRows(graph, node, w));
  if (IsBFloat16(graph, node.inputs[0]))
    return SaturatingAdd(weights, BFloat16Buffers(TypeOf(graph, node.outputs[0]), dy, w, node, kTileScratch));
  return SaturatingAdd(weights, HasStride(node) ? PerThread(Image(dy, 1), 4, 4 * kMiB) : 0);
}

// Threads that share a weight sum into copies of dw of their own, which are then added. A strided
// pointwise convolution gathers the pixels of x that it reads.
CappedDim ConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &dy = TypeOf(graph, node.inputs[0]), &x = TypeOf(graph, node.inputs[1]),
                   &dw = TypeOf(graph, node.outputs[0]);
  if (IsBFloat16(graph, node.inputs[0])) {
    const int64_t sums = SaturatingMul(PackedWeights(dw, node.attrs.Int("group", 1)), 2);
    return SaturatingAdd(WeightsWorkspace(dw, node),
                         BFloat16Buffers(x, dy, dw, node, SaturatingAdd(sums, kTileScratch)));
  }
  const int64_t copies = PerThread(PackedWeights(dw, node.attrs.Int("group", 1)), 0, 4 * kMiB);
  int64_t gathered = 0;
  if (HasStride(node) && WindowTaps(dw) == 1) {
    TensorType image = dy;
    if (!image.dims.empty() && !x.dims.empty()) image.dims.back() = x.dims.back();
    gathered = PerThread(Image(image, 0), 4, 4 * kMiB);
  }
  return SaturatingAdd(WeightsWorkspace(dw, node), SaturatingAdd(copies, gathered));
}

// For an operand that must be copied: one block of 64 columns and at most 1024 rows per thread. If
// the blocks do not fit, another of oneDNN's implementations needs none.
CappedDim MatMulWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType& a = TypeOf(graph, node.inputs[0]);
  const bool trans_a = node.attrs.Int("trans_a") != 0;
  const size_t k_axis = a.dims.size() - (trans_a ? 2 : 1);
  const bool fixed = a.dims.size() >= 2 && a.dims[k_axis].IsFixed();
  const int64_t k = fixed ? std::min<int64_t>(RoundUp(Extent(a, k_axis), 64), 1024) : 1024;
  const int64_t block = k * 64 * kFloat;
  const int64_t scratch = std::min(kThreads * (block * (trans_a ? 2 : 1) + 16 * kKiB), 2560 * kKiB);
  if (DecodesOperand(graph, node, 1)) {
    const bool pieces = a.dtype == DType::kBFloat16;
    return std::max(WidenedProduct(graph, node), pieces ? kCodedPiecesBytes + kRoundedSumBytes + scratch : 0);
  }
  const TensorType& b = TypeOf(graph, node.inputs[1]);
  if (a.dtype != DType::kBFloat16 && b.dtype != DType::kBFloat16) return scratch;
  return std::max(WidenedProduct(graph, node), SaturatingAdd(RoundedFactor(graph, node), scratch));
}

CappedDim AttentionWorkspace(const Graph& graph, const Node& node, const Target&) {
  const AttentionExtents e = AttentionExtentsOf(graph, node, 0);
  const bool bfloat16 = IsBFloat16(graph, node.inputs[0]);
  return ForHeads(AttentionScratch::Forward(e.queries, e.keys, e.depth, e.value_depth, bfloat16), true);
}

// If heads or samples share a bias, its gradient is computed in several partial sums. One that is
// bfloat16 is summed in float32 first.
CappedDim AttentionGradWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const AttentionExtents e = AttentionExtentsOf(graph, node, 1);
  const bool capped = node.attrs.Float("softcap") > 0, bfloat16 = IsBFloat16(graph, node.inputs[1]);
  const bool has_d_bias = node.outputs.size() > (node.attrs.Has("packed") ? 1 : 3);
  const int64_t threads = ForHeads(
      AttentionScratch::Backward(e.queries, e.keys, e.depth, e.value_depth, capped, bfloat16), !has_d_bias);
  const TensorType* d_bias = FixedBiasGradient(graph, node);
  if (!d_bias) return threads;
  const int64_t elements = d_bias->Elements().fixed, parts = target.SharedGradientParts(elements);
  const bool apart = parts > 1 || d_bias->dtype == DType::kBFloat16;
  return SaturatingAdd(threads, apart ? SaturatingMul(elements, parts * kFloat) + 64 : 0);
}

// Packed weights [G H,H] in blocks of 64, and rows of (G + 1) H floats for each sample: the state
// and its products, or the gradients of the gates.
CappedDim RecurrentWorkspace(const Graph& graph, const Node& node, const Target&) {
  const size_t weights_at = FindRecurrentSignature(node.op)->inputs.find('W');
  const TensorType &weights = TypeOf(graph, node.inputs[weights_at]), &x = TypeOf(graph, node.inputs[0]);
  const int64_t rows = RoundUp(Extent(weights, 0), 64), columns = RoundUp(Extent(weights, 1), 64);
  const int64_t packed = SaturatingMul(SaturatingMul(rows, columns), kFloat);
  const int64_t fixed = SaturatingAdd(packed, kSmallScratch);
  const int64_t per_sample = SaturatingMul(SaturatingAdd(Extent(weights, 0), Extent(weights, 1)), kFloat);
  return Dim(fixed) + (x.dims.empty() ? Dim(0) : x.dims[0]) * Dim(per_sample);
}

CappedDim BatchNormWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const int64_t channels = std::min(Extent(TypeOf(graph, node.outputs[0]), 0), kTooLarge / 1024);
  return SaturatingMul(target.RowSumParts(channels), BatchNormPartBytes(channels));
}

CappedDim ReduceWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const Dim kept = TypeOf(graph, node.outputs[0]).Elements();
  if (!kept.IsFixed()) return 0;
  const int64_t columns = std::min(kept.fixed, kMiB);
  return std::min(SaturatingMul(target.RowSumParts(columns), ReducePartBytes(columns)), kMiB);
}

}  // namespace act
