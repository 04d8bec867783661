// Lets a reshape of a reshape read what the first one reads. Exporters write [1,N,T,C] between [N,T,C] and [N,T,H,D],
// and a loop over samples (tile-samples) cannot cut a shape in which samples are not the first axis.
#include "compiler/ir/uses.h"
#include "passes/pass.h"
#include "runtime/plan/runtime_op.h"

namespace act {

llvm::Error MergeReshapes(Graph& graph, PassContext&) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    if (!IsAlias(node)) continue;
    const Node* first = uses.ProducerNode(node.inputs[0]);
    // context.edges lists what crosses to the backward pass, so that stays as it is.
    if (first && IsAlias(*first) && first->phase == node.phase) node.inputs[0] = first->inputs[0];
  }
  return llvm::Error::success();
}

}  // namespace act
