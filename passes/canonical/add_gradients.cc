// The backward pass and the updates (compiler/autodiff). A graph with its own backward pass gets the updates
// alone.
#include <algorithm>

#include "compiler/autodiff/differentiate.h"
#include "passes/pass.h"
#include "runtime/base/error.h"
#include "runtime/plan/alias.h"

namespace act {
namespace {

// Gradient rules must ask for what they read: a forward value that backward reads without Save() is a rule's
// mistake.
llvm::Error CheckSaved(const Graph& graph, const std::vector<ValueId>& saved) {
  std::vector<bool> forward(graph.values.size(), false), asked(graph.values.size(), false);
  for (ValueId v : saved) asked[static_cast<size_t>(v)] = true;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) {
      for (ValueId v : node.outputs) forward[static_cast<size_t>(v)] = true;
      continue;
    }
    for (ValueId v : node.inputs)
      if (v != kNoValue && forward[static_cast<size_t>(v)] && !asked[static_cast<size_t>(v)])
        return MakeError("internal error: node '" + node.name + "' (" + node.op + ")",
                         "reads a forward value that its gradient rule did not save");
  }
  return llvm::Error::success();
}

// Each update stands behind the last reader of its parameter, under whatever shape, and behind its gradient.
llvm::Error UpdateByOutputs(Graph& graph, PassContext& context) {
  const std::vector<ValueId> gradients(graph.outputs.begin() + 1, graph.outputs.end());
  const std::vector<ValueId> roots = AliasRoots(graph);
  const auto root = [&roots](ValueId v) { return static_cast<size_t>(roots[static_cast<size_t>(v)]); };
  std::vector<size_t> last(graph.values.size(), 0);  // the last node that makes or reads a value
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId v : graph.nodes[i].outputs) last[root(v)] = i;
    for (ValueId v : graph.nodes[i].inputs)
      if (v != kNoValue) last[root(v)] = i;
  }
  std::vector<size_t> due;  // the node behind which each update stands
  for (size_t k = 0; k < gradients.size(); ++k)
    due.push_back(std::max(last[root(gradients[k])], last[root(context.trainable[k])]));
  graph.outputs.resize(1);
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  GraphBuilder builder(graph);
  builder.SetPhase(Phase::kBackward);
  UpdateAppender updates(builder, context.updates);
  for (size_t i = 0; i < nodes.size(); ++i) {
    graph.nodes.push_back(std::move(nodes[i]));
    for (size_t k = 0; k < gradients.size(); ++k)
      if (due[k] == i) ACT_CHECK_OK(updates.Add(context.trainable[k], gradients[k]));
  }
  return updates.Finish();
}

}  // namespace

llvm::Error AddGradients(Graph& graph, PassContext& context) {
  if (context.own_backward) return UpdateByOutputs(graph, context);
  ACT_TRY(const Gradients gradients, Differentiate(graph, context.loss, context.trainable, context.updates));
  return CheckSaved(graph, gradients.saved);
}

}  // namespace act
