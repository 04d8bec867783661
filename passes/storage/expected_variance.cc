#include "passes/storage/expected_variance.h"

#include "compiler/ops/codec_ops.h"
#include "compiler/ops/equal_parts.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"

namespace act {
namespace {

// The range of a group of normal numbers of deviation 1, and of one side of it.
constexpr double kRange = 5.6, kSide = 2.8;
// Ranges relative to the root of the mean square: of values that are above 0 half of the time and
// about 0 otherwise, of a slope between 0 and 1, and of a loss's probabilities. Those of the
// probabilities are relative to their distance from the right ones.
constexpr double kRectified = 4, kSlope = 2, kProbability = 1;

double RangeOf(Values values) {
  switch (values) {
    case Values::kSlope:
      return kSlope;
    case Values::kProbability:
      return kProbability;
    case Values::kRectified:
      return kRectified;
    case Values::kNormal:
    case Values::kUnbounded:
      break;
  }
  return kRange;
}

// The prior takes what samples and positions add to a gradient as independent. They agree in part, so its square is
// larger: by this, the geometric mean of seven convolutional networks (docs/memory_report.md).
constexpr double kCoherence = 7;

}  // namespace

ExpectedVariance::ExpectedVariance(const Graph& graph, int64_t batch)
    : shares_(EstimateShares(graph, batch, &gradient_square_)) {
  std::map<ValueId, double> ranges;
  std::map<ValueId, bool> normalized;
  for (const Node& node : graph.nodes) {
    const OpDef& op = OpOf(node);
    if (op.coding == Coding::kEncode && CodecOf(node.attrs).HasLevels())
      codes_[node.outputs[0]] = {CodecOf(node.attrs), graph.value(node.inputs[0]).type.dims,
                                 ranges[node.inputs[0]], normalized[node.inputs[0]]};
    bool near_one = op.rectifies || op.smooth || op.movement != Movement::kNone;
    for (const ValueId v : node.inputs)
      if (v != kNoValue && graph.value(v).kind != ValueKind::kConstant) near_one = near_one && normalized[v];
    near_one = near_one || Normalizes(op) || op.values == Values::kSlope;
    const bool parts = MakesEqualParts(graph, node);
    for (const ValueId v : node.outputs) {
      ranges[v] = parts ? ranges[node.inputs[0]] : RangeOf(op.values);
      normalized[v] = near_one;
    }
  }
}

CodedEdge ExpectedVariance::Of(ValueId code) const {
  const auto& [codec, dims, range_if_uniform, normalized] = codes_.at(code);
  const GradientShare& share = shares_.at(code);
  CodedEdge edge{.codec = codec, .dims = dims, .normalized = normalized};
  double weight = share.value + share.mean, range = range_if_uniform;
  if (codec.kind == CodecKind::kZero) range = kSide;
  if (codec.kind == CodecKind::kSign) {
    range = codec.metadata == Metadata::kSides ? kRange : kSide;
    weight = share.value + share.mean * 3 / 4;
    edge.share_below = weight > 0 ? share.mean / 4 / weight : 0;
  }
  edge.variance = weight * range * range * RelativeError(codec, edge.share_below);
  return edge;
}

double ExpectedVariance::Sum() const {
  double sum = 0;
  for (const auto& entry : codes_) sum += Of(entry.first).variance;
  return sum;
}

double ExpectedVariance::RelativeSum() const {
  return gradient_square_ > 0 ? Sum() / (kCoherence * gradient_square_) : 0;
}

// Codes without levels have errors that the prior does not know.
llvm::Error ExpectVariance(Graph& graph, PassContext& context) {
  context.relative_variance.reset();
  if (context.policy.range_bits == 0 && !context.policy.plugin)
    context.relative_variance = ExpectedVariance(graph, context.policy.batch).RelativeSum();
  return llvm::Error::success();
}

}  // namespace act
