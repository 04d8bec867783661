// The backward pass and the updates (compiler/autodiff).
#include "compiler/autodiff/differentiate.h"
#include "passes/pass.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Gradient rules must ask for what they read: a forward value that backward reads without Save() is a rule's
// mistake.
llvm::Error CheckSaved(const Graph& graph, const std::vector<SavedUse>& saved) {
  std::vector<bool> forward(graph.values.size(), false), asked(graph.values.size(), false);
  for (const SavedUse& use : saved) asked[static_cast<size_t>(use.value)] = true;
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

}  // namespace

llvm::Error AddGradients(Graph& graph, PassContext& context) {
  ACT_TRY(Gradients gradients, Differentiate(graph, context.loss, context.trainable, context.optimizer));
  ACT_CHECK_OK(CheckSaved(graph, gradients.saved));
  return llvm::Error::success();
}

}  // namespace act
