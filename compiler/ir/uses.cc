#include "compiler/ir/uses.h"

#include <algorithm>

namespace act {

Uses::Uses(const Graph& graph, const std::vector<Node>& nodes)
    : nodes_(&nodes), producer_(graph, -1), first_(graph), read_count_(graph), output_count_(graph) {
  for (const Node& node : nodes)
    for (ValueId v : node.inputs)
      if (v != kNoValue) ++read_count_[v];
  size_t total = 0;
  for (ValueId v = 0; v < static_cast<ValueId>(graph.values.size()); ++v) {
    first_[v] = total;
    total += read_count_[v];
  }
  readers_.resize(total);
  ValueMap<size_t> next = first_;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (ValueId v : nodes[i].outputs) producer_[v] = static_cast<int64_t>(i);
    for (ValueId v : nodes[i].inputs)
      if (v != kNoValue) readers_[next[v]++] = i;
  }
  for (ValueId v : graph.outputs) ++output_count_[v];
}

std::span<const size_t> Uses::Readers(ValueId v) const {
  return std::span(readers_).subspan(first_[v], read_count_[v]);
}

int64_t Uses::OnlyReader(ValueId v) const {
  const std::span<const size_t> readers = Readers(v);
  if (readers.empty() || IsOutput(v) || readers.front() != readers.back()) return -1;
  return static_cast<int64_t>(readers.front());
}

}  // namespace act
