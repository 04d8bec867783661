// Adds the backward pass and the updates (compiler/autodiff). A graph with its own backward pass
// gets only the updates.
#include <algorithm>

#include "compiler/autodiff/differentiate.h"
#include "compiler/ir/uses.h"
#include "passes/pass.h"
#include "passes/precision/choose_precision.h"
#include "runtime/base/error.h"
#include "runtime/plan/alias.h"

namespace act {
namespace {

// Gradient rules must ask for what they read. If backward reads a forward value without Save(), the
// rule is wrong.
llvm::Error CheckSaved(const Graph& graph, const std::vector<ValueId>& saved) {
  const Uses uses(graph);
  ValueMap<bool> asked(graph);
  for (ValueId v : saved) asked[v] = true;
  const auto forward = [&uses](ValueId v) {
    const Node* producer = uses.ProducerNode(v);
    return producer && producer->phase == Phase::kForward;
  };
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) continue;
    for (ValueId v : node.inputs)
      if (forward(v) && !asked[v])
        return MakeError("internal error: node '" + node.name + "' (" + node.op + ")",
                         "reads a forward value that its gradient rule did not save");
  }
  return llvm::Error::success();
}

// A value may be the gradient of several values, of which a sum passes it on. It is float32 if one of
// them is.
void MarkGradient(Marks& marks, ValueId gradient, Precision of_value) {
  marks[gradient].precision = std::max(marks[gradient].precision, of_value);
}

// Each update comes after its gradient and after the last reader of its parameter, in any shape.
llvm::Error UpdateByOutputs(Graph& graph, const std::vector<ValueId>& trained, const UpdateOptions& options) {
  const std::vector<ValueId> gradients(graph.outputs.begin() + 1, graph.outputs.end());
  const std::vector<ValueId> roots = AliasRoots(graph);
  const auto root = [&roots](ValueId v) { return static_cast<size_t>(roots[static_cast<size_t>(v)]); };
  std::vector<size_t> last(graph.values.size(), 0);  // the last node that makes or reads a value
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId v : graph.nodes[i].outputs) last[root(v)] = i;
    for (ValueId v : graph.nodes[i].inputs)
      if (v != kNoValue) last[root(v)] = i;
  }
  std::vector<size_t> due;  // the node after which each update comes
  for (size_t k = 0; k < gradients.size(); ++k)
    due.push_back(std::max(last[root(gradients[k])], last[root(trained[k])]));
  graph.outputs.resize(1);
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  GraphBuilder builder(graph);
  builder.SetPhase(Phase::kBackward);
  UpdateAppender updates(builder, options);
  for (size_t i = 0; i < nodes.size(); ++i) {
    graph.nodes.push_back(std::move(nodes[i]));
    for (size_t k = 0; k < gradients.size(); ++k)
      if (due[k] == i) ACT_CHECK_OK(updates.Add(trained[k], gradients[k]));
  }
  return updates.Finish();
}

}  // namespace

llvm::Error AddGradients(Graph& graph, PassContext& context) {
  const std::vector<ValueId> trained = TrainedParameters(context.marks);
  if (context.compute == Compute::kBFloat16) ChoosePrecision(graph, context.marks);
  if (context.own_backward) {
    for (size_t i = 1; i < graph.outputs.size(); ++i)
      context.marks[graph.outputs[i]].precision = Precision::kFloat32;
    return UpdateByOutputs(graph, trained, context.updates);
  }
  ACT_TRY(const Gradients gradients, Differentiate(graph, graph.outputs[0], trained, context.updates));
  for (const auto& [value, gradient] : gradients.of_values)
    MarkGradient(
        context.marks, gradient,
        IsPersistent(graph.value(value).kind) ? Precision::kFloat32 : context.marks[value].precision);
  return CheckSaved(graph, gradients.saved);
}

}  // namespace act
