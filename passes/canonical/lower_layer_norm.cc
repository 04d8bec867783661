// Splits LayerNorm into statistics, which are reductions of rows, and an elementwise part. Fusion
// and gradients work on these. The variance is the mean of squared deviations from the mean, never
// a difference of squares. The gradients of the statistics are part of LayerNormApply's gradient,
// so that backward reads only the normalized values and rstd.
#include "compiler/ir/replace.h"
#include "compiler/ops/graph_builder.h"
#include "compiler/ops/norm_mean.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// inputs: x, gamma?, beta?
llvm::Expected<ValueId> Lower(GraphBuilder& builder, const Node& node) {
  const std::string name = node.name + ".stats";
  const ValueId x = node.inputs[0];
  const auto operand = [&](size_t i, float without) {
    return node.inputs.size() > i && node.inputs[i] != kNoValue ? node.inputs[i] : builder.Scalar(without);
  };
  ValueId mean = builder.Scalar(0), deviation = x;
  if (node.attrs.Int("center", 1) != 0) {
    ACT_TRY(mean, NormMean(builder, x, node.attrs, name));
    ACT_TRY(deviation, builder.Add1("Sub", {x, mean}, {}, name));
  }
  ACT_TRY(const ValueId squares, builder.Add1("Square", {deviation}, {}, name));
  ACT_TRY(const ValueId variance, NormMean(builder, squares, node.attrs, name));
  Attributes epsilon;
  epsilon.Set("epsilon", node.attrs.Float("epsilon", 1e-5));
  ACT_TRY(const ValueId rstd, builder.Add1("InverseDeviation", {variance}, epsilon, name));
  return builder.Add1("LayerNormApply", {x, mean, rstd, operand(1, 1), operand(2, 0)}, node.attrs, node.name);
}

}  // namespace

llvm::Error LowerLayerNorm(Graph& graph, PassContext& context) {
  Replacements replacements(graph, context.marks);
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  GraphBuilder builder(graph);
  for (Node& node : nodes) {
    replacements.Update(node);
    builder.SetPhase(node.phase);
    if (node.op == "LayerNorm") {
      ACT_TRY(const ValueId y, Lower(builder, node));
      replacements.Replace(node.outputs[0], y);
    } else {
      graph.nodes.push_back(std::move(node));
    }
  }
  return llvm::Error::success();
}

}  // namespace act
