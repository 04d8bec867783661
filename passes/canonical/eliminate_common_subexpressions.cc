// Nodes that compute the same from the same operands become one: the first. A derived node that equals a
// forward node becomes a read of that node's result, so that one tensor is never stored under two names.
#include <algorithm>
#include <map>

#include "compiler/ops/op_table.h"
#include "passes/pass.h"

namespace act {
namespace {

using Key =
    std::tuple<std::string, std::vector<ValueId>, std::map<std::string, Attribute>, std::vector<std::string>>;

}  // namespace

llvm::Error EliminateCommonSubexpressions(Graph& graph, PassContext& context) {
  std::vector<ValueId> replacement(graph.values.size());
  for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<ValueId>(i);
  const auto replace = [&replacement](ValueId& v) {
    if (v != kNoValue) v = replacement[static_cast<size_t>(v)];
  };
  std::map<Key, std::vector<ValueId>> seen;
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    for (ValueId& v : node.inputs) replace(v);
    const OpDef* def = FindOp(node.op);
    // A named result is an output that is found by its name.
    const bool named = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&graph](ValueId v) { return !graph.value(v).name.empty(); });
    if (node.mutates.empty() && !named && !(def && def->random)) {
      std::vector<std::string> types;
      for (ValueId v : node.outputs) types.push_back(ToString(graph.value(v).type));
      const auto [it, added] = seen.emplace(Key{node.op, node.inputs, node.attrs.map(), types}, node.outputs);
      if (!added) {
        for (size_t i = 0; i < node.outputs.size(); ++i)
          replacement[static_cast<size_t>(node.outputs[i])] = it->second[i];
        continue;
      }
    }
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  for (ValueId& v : graph.outputs) replace(v);
  if (context.loss != kNoValue) replace(context.loss);
  std::set<ValueId> statistics;
  for (ValueId v : context.statistics) statistics.insert(replacement[static_cast<size_t>(v)]);
  context.statistics = std::move(statistics);
  return llvm::Error::success();
}

}  // namespace act
