// A walk over a graph's nodes that rewrites those of an operator one at a time.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/uses.h"
#include "compiler/ops/graph_builder.h"
#include "runtime/base/error.h"

namespace act {

// Calls rewrite(node, uses) for each node of the operator, in order. It may change the node, and may add nodes before it
// with a builder of the graph, whose phase is the node's. `uses` are those of the graph before the walk.
template <class Rewrite>
llvm::Error RewriteNodes(Graph& graph, GraphBuilder& builder, std::string_view op, const Rewrite& rewrite) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [op](const Node& n) { return n.op == op; }))
    return llvm::Error::success();
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  const Uses uses(graph, nodes);
  std::vector<std::pair<size_t, size_t>> kept;  // places of other nodes, before and after
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op != op) {
      kept.emplace_back(i, graph.nodes.size());
      graph.nodes.emplace_back();
      continue;
    }
    builder.SetPhase(nodes[i].phase);
    Node made = nodes[i];
    ACT_CHECK_OK(rewrite(made, uses));
    graph.nodes.push_back(std::move(made));
  }
  for (const auto& [from, to] : kept) graph.nodes[to] = std::move(nodes[from]);
  return llvm::Error::success();
}

}  // namespace act
