#include "compiler/ir/loss_part.h"

#include <algorithm>

#include "compiler/ops/op_table.h"
#include "runtime/plan/recurrent_signature.h"

namespace act {

ValueMap<bool> LeadToProducts(const Graph& graph) {
  ValueMap<bool> leads(graph);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.phase != Phase::kForward) continue;
    const bool inside =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return leads[v]; });
    // What only the backward pass reads of a node inside of the network (the gates of an LSTM) is inside of it too.
    if (inside)
      for (const ValueId v : node.outputs) leads[v] = true;
    // A recurrent cell multiplies the state that it makes of its operands.
    if (!inside && OpOf(node).product == Product::kNone && !FindRecurrentSignature(node.op)) continue;
    for (const ValueId v : node.inputs)
      if (v != kNoValue) leads[v] = true;
  }
  return leads;
}

}  // namespace act
