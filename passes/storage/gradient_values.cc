#include "passes/storage/gradient_values.h"

#include "compiler/ops/op_table.h"

namespace act {

ValueMap<bool> GradientValues(const Graph& graph) {
  ValueMap<bool> gradients(graph);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) continue;
    bool gradient = OpOf(node).gradient, constant = true;
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
