// Drops nodes whose results nothing reads. Keeps nodes that write in place
// (updates, running statistics).
#include "compiler/ir/value_map.h"
#include "passes/pass.h"

namespace act {

llvm::Error EliminateDeadCode(Graph& graph, PassContext&) {
  ValueMap<bool> live(graph);
  for (ValueId v : graph.outputs) live[v] = true;
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    bool needed = !node.mutates.empty();
    for (ValueId v : node.outputs) needed |= live[v];
    if (!needed) continue;
    for (ValueId v : node.inputs)
      if (v != kNoValue) live[v] = true;
    kept.push_back(std::move(node));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return llvm::Error::success();
}

}  // namespace act
