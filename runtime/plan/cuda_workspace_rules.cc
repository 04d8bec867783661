// Scratch space on a card. A plan does not know which card runs it, nor which engine of a library will
// be the fastest there. So these are amounts within which there is a fast one on each, and no kernel
// takes more.
#include <algorithm>

#include "runtime/plan/operand_extents.h"
#include "runtime/plan/recurrent_signature.h"
#include "runtime/plan/workspace.h"
#include "runtime/plan/workspace_rules.h"

namespace act {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kFloat = 4;
// cuDNN's deterministic engines of ResNet-50 take some hundred bytes in bfloat16 and tf32. In float32
// the fastest want copies of their operands in another order, up to 1.2 GB at batch 256.
constexpr int64_t kMostOfConvolution = 64 * kMiB;
// What cuBLAS's documentation (cublasSetWorkspace) recommends for Hopper and Blackwell, and for cards
// before these.
constexpr int64_t kMostOfProduct = 32 * kMiB, kMostOfSmallProduct = 4 * kMiB;
// Scores of attention that are held at once, of as many heads as they suffice for.
constexpr int64_t kMostScores = 64 * kMiB;
// If the scores of one head take more: at least this many queries at a time.
constexpr int64_t kLeastQueries = 16;
// Counts by digit, of a sort by digits.
constexpr int64_t kSortCounts = 256 * kKiB;

CappedDim operator+(const CappedDim& a, int64_t bytes) {
  return {a.size + Dim(bytes), SaturatingAdd(a.most, bytes)};
}

// Aligned, so that something else may follow.
int64_t Aligned(int64_t bytes) { return RoundUp(bytes, AlignmentOf(TargetKind::kCuda)); }

CappedDim TwiceTheOperands(const Graph& graph, const Node& node, int64_t most) {
  Dim bytes;
  for (const auto* operands : {&node.inputs, &node.outputs})
    for (const ValueId id : *operands)
      if (id != kNoValue) bytes = bytes + TypeOf(graph, id).Bytes();
  return {bytes * Dim(2), most};
}

// cuDNN takes weights channels-last, [M,K..,C/group]. With one tap that is the order they have.
int64_t TransposedWeights(const TensorType& w) {
  const Dim bytes = w.Bytes();
  return WindowTaps(w) > 1 && bytes.IsFixed() ? Aligned(bytes.fixed) : 0;
}

// Mean and sum of squared deviations in double, or two sums.
int64_t RowSums(const Target& target, int64_t columns) {
  const int64_t parts = target.RowSumParts(columns);
  return parts > 1 ? SaturatingMul(SaturatingMul(parts, columns), kCudaRowPartBytes) : 0;
}

// `blocks` tensors of scores, of as many heads as fit, or of some queries of one head.
CappedDim Scores(const AttentionExtents& e, int64_t blocks) {
  const int64_t row = SaturatingMul(e.keys, kFloat);
  const int64_t most = std::max(kMostScores, SaturatingMul(std::min(e.queries, kLeastQueries), row));
  return {e.heads * Dim(SaturatingMul(SaturatingMul(e.queries, row), blocks)), SaturatingMul(most, blocks)};
}

}  // namespace

// Forward, and the gradient of the input.
CappedDim CudaConvWorkspace(const Graph& graph, const Node& node, const Target&) {
  return TwiceTheOperands(graph, node, kMostOfConvolution) + TransposedWeights(TypeOf(graph, node.inputs[1]));
}

// Our own kernel of depthwise convolutions makes partial sums of dw.
CappedDim CudaConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const TensorType& dw = TypeOf(graph, node.outputs[0]);
  const bool depthwise = node.attrs.Int("group", 1) > 1 && Extent(dw, 1) == 1;
  const int64_t parts =
      depthwise && dw.Elements().IsFixed() ? Aligned(RowSums(target, dw.Elements().fixed)) : 0;
  return TwiceTheOperands(graph, node, kMostOfConvolution) + SaturatingAdd(TransposedWeights(dw), parts);
}

CappedDim CudaMatMulWorkspace(const Graph& graph, const Node& node, const Target&) {
  return TwiceTheOperands(graph, node, kMostOfProduct);
}

CappedDim CudaAttentionWorkspace(const Graph& graph, const Node& node, const Target&) {
  return Scores(AttentionExtentsOf(graph, node, 0), 1);
}

// Probabilities and their gradients; where scores are capped, also the slopes of the caps.
CappedDim CudaAttentionGradWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const int64_t blocks = node.attrs.Float("softcap") > 0 ? 3 : 2;
  const TensorType* d_bias = FixedBiasGradient(graph, node);
  const int64_t elements = d_bias ? d_bias->Elements().fixed : 0;
  const int64_t parts = d_bias ? target.SharedGradientParts(elements) : 1;
  return Scores(AttentionExtentsOf(graph, node, 1), blocks) +
         (parts > 1 ? Aligned(SaturatingMul(elements, parts * kFloat)) : 0);
}

// A product of each step, and (G + 1) H floats for each sample: the state and its products, or the
// gradients of the gates.
CappedDim CudaRecurrentWorkspace(const Graph& graph, const Node& node, const Target&) {
  const size_t weights_at = FindRecurrentSignature(node.op)->inputs.find('W');
  const TensorType &weights = TypeOf(graph, node.inputs[weights_at]), &x = TypeOf(graph, node.inputs[0]);
  const int64_t per_sample = SaturatingMul(SaturatingAdd(Extent(weights, 0), Extent(weights, 1)), kFloat);
  return Dim(kMostOfSmallProduct) + (x.dims.empty() ? Dim(0) : x.dims[0]) * Dim(per_sample);
}

CappedDim CudaRowSumsWorkspace(const Graph& graph, const Node& node, const Target& target) {
  const Dim kept = TypeOf(graph, node.outputs[0]).Elements();
  return kept.IsFixed() ? RowSums(target, kept.fixed) : 0;
}

CappedDim CudaLossWorkspace(const Graph&, const Node&, const Target& target) { return RowSums(target, 1); }

// Updates of one element are combined in their order: a stable sort of (target, position), two
// numbers of 4 bytes, from one buffer to another and back.
CappedDim CudaScatterWorkspace(const Graph& graph, const Node& node, const Target&) {
  return TypeOf(graph, node.inputs[1]).Elements() * Dim(16) + Dim(kSortCounts);
}

}  // namespace act
