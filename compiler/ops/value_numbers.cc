#include "compiler/ops/value_numbers.h"

#include "compiler/ops/op_table.h"

namespace act {

void ValueNumbers::Read(const Graph& graph) {
  while (first_.size() < graph.values.size()) first_.push_back(static_cast<ValueId>(first_.size()));
  for (; nodes_ < graph.nodes.size(); ++nodes_) {
    const Node& node = graph.nodes[nodes_];
    const OpDef* def = FindOp(node.op);
    if (!def || def->random || !node.mutates.empty()) continue;
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(v == kNoValue ? v : first_[static_cast<size_t>(v)]);
    std::vector<std::string> types;
    for (const ValueId v : node.outputs) types.push_back(ToString(graph.value(v).type));
    const auto [known, added] =
        results_.emplace(Key{node.op, std::move(inputs), node.attrs.map(), std::move(types)}, node.outputs);
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
