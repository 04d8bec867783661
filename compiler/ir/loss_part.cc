#include "compiler/ir/loss_part.h"

#include <algorithm>

#include "compiler/ops/op_table.h"

namespace act {

ValueMap<bool> LeadToProducts(const Graph& graph) {
  ValueMap<bool> leads(graph);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.phase != Phase::kForward) continue;
    const bool any =
        OpOf(node).product != Product::kNone ||
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return leads[v]; });
    for (const ValueId v : node.inputs)
      if (any && v != kNoValue) leads[v] = true;
  }
  return leads;
}

}  // namespace act
