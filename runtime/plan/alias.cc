#include "runtime/plan/alias.h"

#include "runtime/plan/runtime_op.h"

namespace act {

std::vector<ValueId> AliasRoots(const Graph& graph) {
  std::vector<ValueId> root(graph.values.size());
  for (size_t v = 0; v < root.size(); ++v) root[v] = static_cast<ValueId>(v);
  for (const Node& node : graph.nodes)
    if (IsAlias(node)) root[static_cast<size_t>(node.outputs[0])] = root[static_cast<size_t>(node.inputs[0])];
  return root;
}

}  // namespace act
