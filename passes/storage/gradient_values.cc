#include "passes/storage/gradient_values.h"

#include "compiler/ops/op_table.h"

namespace act {

std::vector<bool> GradientValues(const Graph& graph) {
  std::vector<bool> gradients(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) continue;
    bool gradient = OpOf(node).gradient, constant = true;
    for (const ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      gradient |= gradients[static_cast<size_t>(v)];
      constant &= graph.value(v).kind == ValueKind::kConstant;
    }
    for (const ValueId v : node.outputs) gradients[static_cast<size_t>(v)] = gradient || constant;
  }
  return gradients;
}

}  // namespace act
