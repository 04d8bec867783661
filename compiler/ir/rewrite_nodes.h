// A walk over a graph's nodes that rewrites them one at a time.
#pragma once

#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ops/graph_builder.h"
#include "runtime/base/error.h"

namespace act {

// Calls rewrite(node, uses) for each node in order, then appends the node. `rewrite` may change the
// node, and may add nodes before it with a builder of the graph, whose phase is the node's.
// `uses` are those of the graph before the walk.
template <class Rewrite>
llvm::Error RewriteNodes(Graph& graph, GraphBuilder& builder, const Rewrite& rewrite) {
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  const Uses uses(graph, nodes);
  for (const Node& node : nodes) {
    builder.SetPhase(node.phase);
    Node made = node;
    ACT_CHECK_OK(rewrite(made, uses));
    graph.nodes.push_back(std::move(made));
  }
  return llvm::Error::success();
}

}  // namespace act
