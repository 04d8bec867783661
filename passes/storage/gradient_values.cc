#include "passes/storage/gradient_values.h"

namespace act {

ValueMap<bool> GradientValues(const Graph& graph) {
  ValueMap<bool> gradients(graph);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) continue;
    bool gradient = node.op.ends_with("Grad"), constant = true;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      gradient |= gradients[v];
      constant &= graph.value(v).kind == ValueKind::kConstant;
    }
    for (const ValueId v : node.outputs) gradients[v] = gradient || constant;
  }
  return gradients;
}

}  // namespace act
