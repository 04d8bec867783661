// Replaces nodes that compute the same result from the same operands by the first of them. A
// derived node that equals a forward node becomes a read of that node's result, so that one tensor
// is never stored under two names.
#include <algorithm>
#include <map>

#include "compiler/ir/replace.h"
#include "compiler/ops/value_numbers.h"
#include "passes/pass.h"

namespace act {

llvm::Error EliminateCommonSubexpressions(Graph& graph, PassContext& context) {
  Replacements replacements(graph, context.marks);
  std::map<Computation, std::vector<ValueId>> seen;
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    replacements.Update(node);
    // A named result is an output that is found by its name.
    const bool named = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&graph](ValueId v) { return !graph.value(v).name.empty(); });
    auto computation = named ? std::nullopt : ComputationOf(graph, node, node.inputs);
    if (computation) {
      const auto [it, added] = seen.emplace(std::move(*computation), node.outputs);
      if (!added) {
        for (size_t i = 0; i < node.outputs.size(); ++i) replacements.Replace(node.outputs[i], it->second[i]);
        continue;
      }
    }
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  return llvm::Error::success();
}

}  // namespace act
