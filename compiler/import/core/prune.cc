#include "compiler/import/core/prune.h"

#include <algorithm>

namespace act::onnx_import {

std::vector<ValueId> Prune(Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  const auto mark = [&live](ValueId id) {
    if (id != kNoValue) live[static_cast<size_t>(id)] = true;
  };
  std::for_each(graph.inputs.begin(), graph.inputs.end(), mark);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), mark);
  std::vector<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const auto is_live = [&live](ValueId id) { return id != kNoValue && live[static_cast<size_t>(id)]; };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), is_live)) continue;
    std::for_each(node->inputs.begin(), node->inputs.end(), mark);
    std::for_each(node->outputs.begin(), node->outputs.end(), mark);
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);

  std::vector<ValueId> moved(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    moved[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  const auto renumber = [&moved](std::vector<ValueId>& ids) {
    for (ValueId& id : ids)
      if (id != kNoValue) id = moved[static_cast<size_t>(id)];
  };
  for (Node& node : graph.nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
  renumber(graph.inputs);
  renumber(graph.outputs);
  return moved;
}

}  // namespace act::onnx_import
