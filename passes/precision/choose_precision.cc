#include "passes/precision/choose_precision.h"

#include <algorithm>

#include "compiler/ir/loss_part.h"
#include "compiler/ops/op_table.h"
#include "runtime/plan/runtime_op.h"

namespace act {
namespace {

bool IsFloat32(const Graph& graph, ValueId v) {
  return v != kNoValue && graph.value(v).type.dtype == DType::kFloat32;
}

// The operands whose precision the result takes.
std::vector<ValueId> Sources(const Graph& graph, const Node& node) {
  std::vector<ValueId> sources;
  const bool elementwise = OpOf(node).expr != nullptr;
  const RuntimeOp* row = FindRuntimeOp(node.op);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    if (!IsFloat32(graph, v)) continue;
    const bool full = graph.value(v).type.Elements() == graph.value(node.outputs[0]).type.Elements();
    const bool moved = row && BFloat16Letter(row->bfloat16.operands, i) == 's';
    if (elementwise ? full : moved) sources.push_back(v);
  }
  return sources;
}

}  // namespace

void ChoosePrecision(const Graph& graph, Marks& marks) {
  const auto is_narrow = [&marks](ValueId v) { return marks[v].precision == Precision::kBFloat16; };
  const ValueMap<bool> leads = LeadToProducts(graph);
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward || node.outputs.empty() || !IsFloat32(graph, node.outputs[0])) continue;
    bool narrow = OpOf(node).product != Product::kNone;
    if (!narrow && leads[node.outputs[0]]) {
      const std::vector<ValueId> sources = Sources(graph, node);
      narrow = !sources.empty() && std::all_of(sources.begin(), sources.end(), is_narrow);
    }
    if (narrow) marks[node.outputs[0]].precision = Precision::kBFloat16;
  }
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward || OpOf(node).product != Product::kNone) continue;
    for (const ValueId v : node.inputs)
      if (IsFloat32(graph, v) && !is_narrow(v)) marks[v].precision = Precision::kFloat32;
  }
}

}  // namespace act
