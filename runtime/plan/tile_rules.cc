#include "runtime/plan/tile_rules.h"

#include <algorithm>

#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

const TensorType& TypeOf(const Graph& graph, ValueId id) { return graph.value(id).type; }

// All axes but the first are fixed, and the first is a multiple of N.
bool SamplesLead(const Dims& dims) {
  return !dims.empty() && dims[0].fixed == 0 && dims[0].per_batch > 0 && dims[0].per_batch2 == 0 &&
         std::all_of(dims.begin() + 1, dims.end(), [](const Dim& d) { return d.IsFixed(); });
}

bool IsSlice(const Graph& graph, ValueId id) {
  return id != kNoValue && TileRoleOf(TypeOf(graph, id)) == TileRole::kSlice;
}
bool AreSlices(const Graph& graph, const std::vector<ValueId>& ids) {
  return std::all_of(ids.begin(), ids.end(), [&](ValueId id) { return IsSlice(graph, id); });
}

// Whether operand 0 and the results hold samples.
bool OfSamples(const Graph& graph, const Node& node) {
  return IsSlice(graph, node.inputs[0]) && AreSlices(graph, node.outputs);
}

// Whether a tile of a cross entropy can tell its part of the loss. `at`: the operand with the denominator.
bool KnowsDenominator(const Node& node, size_t at) {
  return node.attrs.String("reduction", "mean") == "sum" ||
         (node.inputs.size() > at && node.inputs[at] != kNoValue);
}

std::optional<std::string> Unless(bool may, const char* why_not) {
  return may ? std::nullopt : std::optional<std::string>(why_not);
}

// Of attention whose q is operand `first`.
std::optional<std::string> WhyNotTileableHeads(const Graph& graph, const Node& node, size_t first) {
  constexpr size_t kFactors = 3;
  if (!IsSlice(graph, node.inputs[first])) return "its queries are not of samples";
  const TensorType& q = TypeOf(graph, node.inputs[first]);
  const size_t rank = q.dims.size() - (node.attrs.Has("packed") ? 1 : 0);
  const auto is_of_samples = [&](ValueId v) {
    return IsSlice(graph, v) && TypeOf(graph, v).dims[0] == q.dims[0];
  };
  for (const char* order : {"perm_q", "perm_k", "perm_v", "perm_o"}) {
    const std::vector<int64_t> axes = node.attrs.Ints(order);
    if (!axes.empty() && axes[0] != 0) return "samples are not its first axis";
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    if (i < first + kFactors
            ? !is_of_samples(v)
            : IsSlice(graph, v) && (!is_of_samples(v) || TypeOf(graph, v).dims.size() != rank))
      return "mixes samples";
  }
  // Heads of all samples in one axis: then numbers are drawn by the position of a head among all.
  if (rank < 4 && node.attrs.Float("probability") > 0) return "draws numbers by head";
  return Unless(IsSlice(graph, node.outputs[0]), "mixes samples");
}

}  // namespace

TileRole TileRoleOf(const TensorType& type) {
  if (SamplesLead(type.dims)) return TileRole::kSlice;
  const bool fixed =
      std::all_of(type.dims.begin(), type.dims.end(), [](const Dim& d) { return d.IsFixed(); });
  return fixed ? TileRole::kSame : TileRole::kNone;
}

std::optional<std::string> UnlessOfSamples(const Graph& graph, const Node& node) {
  return Unless(OfSamples(graph, node), "mixes samples");
}

std::optional<std::string> UnlessStateOfSamples(const Graph& graph, const Node& node) {
  return Unless(IsSlice(graph, node.inputs[0]) && !IsSlice(graph, node.outputs[0]), "reads no samples");
}

std::optional<std::string> UnlessSumOverSamples(const Graph& graph, const Node& node) {
  const bool sum = AreSlices(graph, node.inputs) && !IsSlice(graph, node.outputs[0]) &&
                   TypeOf(graph, node.outputs[0]).dtype == DType::kFloat32;
  return Unless(sum, "is no sum over samples");
}

std::optional<std::string> WhyNotTileableLoop(const Graph& graph, const Node& node) {
  if (!SamplesLead(node.program.space)) return "does not go over samples";
  if (static_cast<size_t>(node.program.row_axes) >= node.program.space.size())
    return "its rows hold several samples";
  if (node.program.outputs.size() < node.outputs.size()) return "has results that its program does not make";
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool sum = node.program.outputs[i].kind == OutputKind::kSum;
    if (IsSlice(graph, node.outputs[i]) == sum) return "a result is neither of samples nor a sum over them";
    if (sum && TypeOf(graph, node.outputs[i]).dtype != DType::kFloat32) return "a sum that is not f32";
  }
  return std::nullopt;
}

std::optional<std::string> WhyNotTileableConvolution(const Graph& graph, const Node& node) {
  return Unless(OfSamples(graph, node) && !IsSlice(graph, node.inputs[1]), "is no convolution of samples");
}

// a [..,M,K] times b [..,K,P]. Either each sample has its own rows of a, or a product of its own.
// Or the product sums over samples, which are then the rows of both operands.
std::optional<std::string> WhyNotTileableProduct(const Graph& graph, const Node& node) {
  const ValueId a = node.inputs[0], b = node.inputs[1];
  const size_t rank_a = TypeOf(graph, a).dims.size(), rank_b = OperandType(graph, node, 1).dims.size();
  const bool trans_a = node.attrs.Int("trans_a") != 0, trans_b = node.attrs.Int("trans_b") != 0;
  if (!IsSlice(graph, a)) return "its first operand is not of samples";
  if (!IsSlice(graph, node.outputs[0])) {
    const bool sums = rank_a == 2 && rank_b == 2 && trans_a && !trans_b && IsSlice(graph, b) &&
                      node.inputs.size() == 2 && TypeOf(graph, node.outputs[0]).dtype == DType::kFloat32;
    return Unless(sums, "is no sum over samples");
  }
  const bool own_product =
      rank_a >= 3 && rank_a == rank_b && TypeOf(graph, a).dims[0] == TypeOf(graph, b).dims[0];
  const bool own_rows = rank_b == 2 && (!trans_a || rank_a >= 3);
  return Unless(IsSlice(graph, b) ? own_product : own_rows, "mixes samples");
}

std::optional<std::string> WhyNotTileableAttention(const Graph& graph, const Node& node) {
  return WhyNotTileableHeads(graph, node, 0);
}
std::optional<std::string> WhyNotTileableAttentionGrad(const Graph& graph, const Node& node) {
  return WhyNotTileableHeads(graph, node, 1);
}

std::optional<std::string> WhyNotTileableTranspose(const Graph& graph, const Node& node) {
  const std::vector<int64_t> perm = node.attrs.Ints("perm");
  return Unless(OfSamples(graph, node) && !perm.empty() && perm[0] == 0, "moves samples");
}

std::optional<std::string> WhyNotTileableSlice(const Graph& graph, const Node& node) {
  const std::vector<int64_t> starts = node.attrs.Ints("starts"), steps = node.attrs.Ints("steps");
  const bool whole = OfSamples(graph, node) && !starts.empty() && starts[0] == 0 && !steps.empty() &&
                     steps[0] == 1 &&
                     TypeOf(graph, node.inputs[0]).dims[0] == TypeOf(graph, node.outputs[0]).dims[0];
  return Unless(whole, "takes some of the samples");
}

std::optional<std::string> WhyNotTileableConcat(const Graph& graph, const Node& node) {
  const bool within = OfSamples(graph, node) && AreSlices(graph, node.inputs) && node.attrs.Int("axis") > 0;
  return Unless(within, "mixes samples");
}

std::optional<std::string> WhyNotTileableRows(const Graph& graph, const Node& node) {
  const bool rows = OfSamples(graph, node) && AreSlices(graph, node.inputs) &&
                    TypeOf(graph, node.inputs[0]).dims.size() > 1;
  return Unless(rows, "mixes samples");
}

std::optional<std::string> WhyNotTileableReduction(const Graph& graph, const Node& node) {
  if (auto why = WhyNotTileableRows(graph, node)) return why;
  const auto last = static_cast<int64_t>(TypeOf(graph, node.inputs[0]).dims.size()) - 1;
  return Unless(node.attrs.Ints("axes") == std::vector<int64_t>{last}, "is no reduction of rows");
}

std::optional<std::string> WhyNotTileableLoss(const Graph& graph, const Node& node) {
  if (!KnowsDenominator(node, 3)) return "its mean needs the labels of all samples";
  const bool of_samples = IsSlice(graph, node.inputs[0]) && IsSlice(graph, node.inputs[1]) &&
                          !IsSlice(graph, node.outputs[0]) && IsSlice(graph, node.outputs[1]);
  return Unless(of_samples, "mixes samples");
}

std::optional<std::string> WhyNotTileableCount(const Graph& graph, const Node& node) {
  const bool of_samples =
      IsSlice(graph, node.inputs[0]) && IsSlice(graph, node.inputs[1]) && !IsSlice(graph, node.outputs[0]);
  return Unless(of_samples, "mixes samples");
}

std::optional<std::string> WhyNotTileableLossGrad(const Graph& graph, const Node& node) {
  if (!KnowsDenominator(node, 4)) return "its mean needs the labels of all samples";
  const bool of_samples = !IsSlice(graph, node.inputs[0]) && IsSlice(graph, node.inputs[1]) &&
                          IsSlice(graph, node.inputs[2]) && IsSlice(graph, node.outputs[0]);
  return Unless(of_samples, "mixes samples");
}

}  // namespace act
