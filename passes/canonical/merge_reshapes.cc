// Makes a reshape of a reshape read what the first one reads. So no shape stays in between that a loop over samples
// could not cut: exporters write [1,N,T,C] on the way from [N,T,C] to [N,T,H,D].
#include "compiler/ir/uses.h"
#include "compiler/ops/op_table.h"
#include "passes/pass.h"

namespace act {

static bool IsReshape(const Node& node) { return OpOf(node).movement == Movement::kReshape; }

llvm::Error MergeReshapes(Graph& graph, PassContext&) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    if (!IsReshape(node)) continue;
    const Node* inner = uses.ProducerNode(node.inputs[0]);
    // What crosses to the backward pass stays what it is: it is listed.
    if (inner && IsReshape(*inner) && inner->phase == node.phase) node.inputs[0] = inner->inputs[0];
  }
  return llvm::Error::success();
}

}  // namespace act
