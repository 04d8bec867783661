// Scratch space on a card. A plan does not know which card runs it, nor which engine of a library will
// be the fastest there. So these are amounts within which there is a fast one on each, and no kernel
// takes more.
#include <algorithm>

#include "runtime/plan/operand_extents.h"
#include "runtime/plan/recurrent_signature.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/workspace.h"
#include "runtime/plan/workspace_rules.h"

namespace act {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kFloat = 4, kDouble = 8;
// cuDNN's deterministic engines of ResNet-50 take some hundred bytes in bfloat16 and tf32. In float32
// the fastest want copies of their operands in another order, up to 1.2 GB at batch 256.
constexpr int64_t kMostOfConvolution = 64 * kMiB;
// What cuBLAS's documentation (cublasSetWorkspace) recommends for Hopper and Blackwell, and for cards
// before these.
constexpr int64_t kMostOfProduct = 32 * kMiB, kMostOfSmallProduct = 4 * kMiB;
// Gradients of q, k and v that attention holds at once, of as many heads as they suffice for: some 700 tiles of 64
// queries, if heads have 64 elements.
constexpr int64_t kMostOfAttention = 32 * kMiB;
// Of the parts of a GridSample's gradient: those of 670,000 bilinear samples of images.
constexpr int64_t kMostOfGridGradient = 64 * kMiB;

CappedDim operator+(const CappedDim& a, const CappedDim& b) {
  const auto most = [](const CappedDim& dim) { return dim.size.IsFixed() ? dim.At(0) : dim.most; };
  return {a.size + b.size, SaturatingAdd(most(a), most(b))};
}

// Aligned, so that something else may follow.
int64_t Aligned(int64_t bytes) { return RoundUp(bytes, AlignmentOf(TargetKind::kCuda)); }

CappedDim TwiceTheOperands(const Graph& graph, const Node& node, int64_t most) {
  Dim bytes;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoValue) bytes = bytes + OperandType(graph, node, i).Bytes();
  for (const ValueId id : node.outputs) bytes = bytes + TypeOf(graph, id).Bytes();
  return {bytes * Dim(2), most};
}

bool IsBFloat16(const TensorType& type) { return type.dtype == DType::kBFloat16; }

// cuDNN takes weights channels-last, [M,K..,C/group]. With one tap that is the order they have. Weights that
// are multiplied with bfloat16 are rounded to it, and some of them widened again.
int64_t LibraryWeights(const TensorType& w, bool rounds) {
  const Dim bytes = w.Bytes();
  return bytes.IsFixed() && (rounds || WindowTaps(w) > 1) ? Aligned(bytes.fixed) : 0;
}

// A float32 factor beside a bfloat16 one, rounded.
CappedDim RoundedFactor(const TensorType& a, const TensorType& b) {
  if (IsBFloat16(a) == IsBFloat16(b)) return 0;
  return (IsBFloat16(a) ? b : a).Elements() * Dim(ByteSize(DType::kBFloat16)) + Dim(Aligned(1));
}

// Of each of `parts` parts.
int64_t PartBytes(int64_t parts, int64_t columns, int64_t bytes) {
  return parts > 1 ? SaturatingMul(SaturatingMul(parts, columns), bytes) : 0;
}

CappedDim RowParts(const Dim& columns, const Target& target, int64_t bytes) {
  return columns.IsFixed() ? PartBytes(target.RowSumParts(columns.fixed), columns.fixed, bytes) : 0;
}

}  // namespace

// A part has at least four rows, so that its sums cost little beside what they are sums of. At least
// one part has room.
CappedDim CudaLoopWorkspace(const Graph& graph, const Node& node, const Target& target) {
  constexpr int64_t kRows = 4;
  const Dim rows_bytes = TensorType{DType::kFloat32, node.program.space}.Elements() * Dim(kDouble / kRows);
  CappedDim all = 0;
  for (size_t i = 0; i < node.program.outputs.size() && i < node.outputs.size(); ++i) {
    if (node.program.outputs[i].kind != OutputKind::kSum) continue;
    const Dim columns = TypeOf(graph, node.outputs[i]).Elements();
    const Dim most = target.LoopPartialSums(columns) * Dim(kDouble);
    all = all + (columns.IsFixed() ? CappedDim(columns * Dim(kDouble) + rows_bytes, most.fixed) : most);
  }
  return all;
}

// Forward, and the gradient of the input.
CappedDim CudaConvWorkspace(const Graph& graph, const Node& node, const Target&) {
  const bool rounds = IsBFloat16(TypeOf(graph, node.inputs[0]));
  return TwiceTheOperands(graph, node, kMostOfConvolution) +
         LibraryWeights(OperandType(graph, node, 1), rounds);
}

CappedDim CudaConvGradWeightWorkspace(const Graph& graph, const Node& node, const Target&) {
  return TwiceTheOperands(graph, node, kMostOfConvolution) +
         LibraryWeights(TypeOf(graph, node.outputs[0]), false);
}

// Sums to which a bias is added before they are rounded take float32 in the workspace, twice the result at most. So do
// sums of the pieces of a code.
CappedDim CudaMatMulWorkspace(const Graph& graph, const Node& node, const Target&) {
  if (DecodesOperand(graph, node, 1)) {
    const Dim sums = TypeOf(graph, node.outputs[0]).Elements() * Dim(kFloat);
    return CappedDim(sums, kMostOfProduct) + kMostOfProduct + kCudaCodedPieceBytes;
  }
  return TwiceTheOperands(graph, node, kMostOfProduct) +
         RoundedFactor(TypeOf(graph, node.inputs[0]), TypeOf(graph, node.inputs[1]));
}

int64_t CudaAttentionPartBytes(int64_t elements, bool is_float32) {
  const int64_t parts = CudaTarget().SharedGradientParts(elements);
  return parts > 1 || !is_float32 ? Aligned(SaturatingMul(elements, parts * kFloat)) : 0;
}

// Statistics of queries, and the gradients of q, k and v.
CappedDim CudaAttentionGradWorkspace(const Graph& graph, const Node& node, const Target&) {
  const AttentionExtents e = AttentionExtentsOf(graph, node, 1);
  const int64_t element = ByteSize(TypeOf(graph, node.outputs[0]).dtype);
  const int64_t of_query = SaturatingAdd(kCudaQueryBytes, SaturatingMul(e.depth, element)),
                of_key = SaturatingMul(SaturatingAdd(e.depth, e.value_depth), element);
  const int64_t head = SaturatingAdd(SaturatingMul(e.queries, of_query), SaturatingMul(e.keys, of_key));
  const TensorType* d_bias = FixedBiasGradient(graph, node);
  return CappedDim(e.heads * Dim(head), std::max(kMostOfAttention, SaturatingMul(head, e.group))) +
         kCudaAttentionGaps +
         (d_bias ? CudaAttentionPartBytes(d_bias->Elements().fixed, d_bias->dtype == DType::kFloat32) : 0);
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
  return RowParts(TypeOf(graph, node.outputs[0]).Elements(), target, kCudaSumBytes);
}

CappedDim CudaBatchNormWorkspace(const Graph& graph, const Node& node, const Target& target) {
  return RowParts(TypeOf(graph, node.outputs[0]).dims[0], target, kCudaMomentsBytes);
}

CappedDim CudaLossWorkspace(const Graph&, const Node&, const Target& target) {
  return RowParts(1, target, kCudaLossBytes);
}

// CudaScatterBytes, as a polynomial. Rows are the trailing axes of the updates that are whole in the
// result and have one index.
CappedDim CudaScatterWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &update = TypeOf(graph, node.inputs[0]), &index = TypeOf(graph, node.inputs[1]),
                   &y = TypeOf(graph, node.outputs[0]);
  if (update.dims.size() != index.dims.size() || update.dims.size() != y.dims.size()) return 0;
  const auto axis = static_cast<size_t>(std::max<int64_t>(node.attrs.Int("axis"), 0));
  int64_t row_bytes = ByteSize(update.dtype);
  Dim rows = 1;
  bool whole = true;
  for (size_t d = update.dims.size(); d-- > 0;) {
    whole = whole && d > axis && index.dims[d] == Dim(1) && update.dims[d].IsFixed();
    if (whole)
      row_bytes = SaturatingMul(row_bytes, update.dims[d].fixed);
    else
      rows = rows * update.dims[d];
    whole = whole && update.dims[d] == y.dims[d];
  }
  const int64_t per_row = 4 * kFloat + kSortCountBytes / kSortedByBlock + 1 +
                          SaturatingAdd(2 * row_bytes, kCombinedByThread - 1) / kCombinedByThread;
  return rows * Dim(per_row) + Dim(SaturatingAdd(CudaScatterBytes(1, row_bytes), 4 * kKiB));
}

// CudaSortBytes of x, where it is sorted, as a polynomial.
CappedDim CudaTopKWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType &x = TypeOf(graph, node.inputs[0]), &y = TypeOf(graph, node.outputs[0]);
  if (x.dims.empty() || y.dims.empty()) return 0;
  const auto most = [](const Dim& dim) { return dim.IsFixed() ? dim.fixed : kTooLarge; };
  if (!CudaTopKSorts(most(x.dims.back()), most(y.dims.back()))) return 0;
  const Dim elements = x.Elements();
  return elements * Dim(4 * kFloat + kSortCountBytes / kSortedByBlock + 1) + Dim(CudaSortBytes(1));
}

// CudaGridGradientBytes of all samples within a bound, or of one. Operands are dy and the grid.
CappedDim CudaGridGradientWorkspace(const Graph& graph, const Node& node, const Target&) {
  const TensorType& grid = TypeOf(graph, node.inputs[1]);
  if (grid.dims.size() < 3 || grid.dims.size() > 5) return 0;
  const std::string mode = node.attrs.String("mode", "linear");
  const int64_t taps = mode == "cubic" ? 4 : mode == "linear" ? 2 : 1;
  const int64_t parts = GridPartsOf(taps, static_cast<int64_t>(grid.dims.size()) - 2);
  Dim points = 1;  // of a sample
  for (size_t d = 1; d + 1 < grid.dims.size(); ++d) points = points * grid.dims[d];
  const int64_t per_part = 4 * kFloat + kSortCountBytes / kSortedByBlock + 1 + kDouble;
  const Dim gaps = CudaGridGradientBytes(1), sample = points * Dim(SaturatingMul(parts, per_part)) + gaps;
  return {grid.dims[0] * sample, std::max(kMostOfGridGradient, sample.IsFixed() ? sample.fixed : kTooLarge)};
}

// CudaNonZeroBytes. Where the elements vary, a byte of each, up to what the most of a kernel need.
CappedDim CudaNonZeroWorkspace(const Graph& graph, const Node& node, const Target&) {
  constexpr int64_t kMostElements = int64_t{1} << 31;
  const Dim elements = TypeOf(graph, node.inputs[0]).Elements();
  if (elements.IsFixed()) return CudaNonZeroBytes(std::min(elements.fixed, kMostElements));
  return {elements + Dim(CudaNonZeroBytes(1)), CudaNonZeroBytes(kMostElements)};
}

}  // namespace act
