#include "compiler/ops/value_numbers.h"

#include "compiler/ops/op_table.h"

namespace act {

std::optional<Computation> ComputationOf(const Graph& graph, const Node& node,
                                         std::vector<ValueId> operands) {
  const OpDef* def = FindOp(node.op);
  if ((def && def->random) || !node.mutates.empty()) return std::nullopt;
  std::vector<std::string> types;
  for (const ValueId v : node.outputs) types.push_back(ToString(graph.value(v).type));
  return Computation{node.op, std::move(operands), node.attrs.map(), std::move(types)};
}

void ValueNumbers::Read(const Graph& graph) {
  while (first_.size() < graph.values.size()) first_.push_back(static_cast<ValueId>(first_.size()));
  for (; nodes_ < graph.nodes.size(); ++nodes_) {
    const Node& node = graph.nodes[nodes_];
    std::vector<ValueId> operands;
    for (const ValueId v : node.inputs)
      operands.push_back(v == kNoValue ? v : first_[static_cast<size_t>(v)]);
    auto computation = ComputationOf(graph, node, std::move(operands));
    if (!computation) continue;
    const auto [known, added] = results_.emplace(std::move(*computation), node.outputs);
    if (!added)
      for (size_t i = 0; i < node.outputs.size(); ++i)
        first_[static_cast<size_t>(node.outputs[i])] = known->second[i];
  }
}

ValueId ValueNumbers::FirstLike(const Graph& graph, ValueId value) {
  Read(graph);
  return first_[static_cast<size_t>(value)];
}

}  // namespace act
