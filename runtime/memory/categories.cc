#include "runtime/memory/categories.h"

#include <algorithm>

namespace act {
namespace {

struct Use {
  int64_t first_write;  // node position; -1: before the step
  int64_t last_read;    // -1: never
};

std::vector<Use> UsesOf(const StepGraph& step) {
  const Graph& graph = step.graph;
  std::vector<Use> uses(static_cast<size_t>(step.storages), {static_cast<int64_t>(graph.nodes.size()), -1});
  const auto use_of = [&](ValueId id) -> Use& {
    return uses[static_cast<size_t>(step.storage_of[static_cast<size_t>(id)])];
  };
  for (const ValueId id : graph.inputs)
    if (step.storage_of[static_cast<size_t>(id)] >= 0) use_of(id).first_write = -1;
  for (size_t t = 0; t < graph.nodes.size(); ++t) {
    const auto now = static_cast<int64_t>(t);
    for (const ValueId id : graph.nodes[t].inputs)
      if (id != kNoValue) use_of(id).last_read = now;
    for (const ValueId id : graph.nodes[t].outputs)
      use_of(id).first_write = std::min(use_of(id).first_write, now);
  }
  return uses;
}

}  // namespace

const char* ToString(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameters:
      return "parameters";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kOptimizer:
      return "optimizer";
    case MemoryCategory::kSaved:
      return "saved";
    case MemoryCategory::kTransient:
      return "transient";
    case MemoryCategory::kWorkspace:
      return "workspace";
  }
  return "?";
}

std::vector<MemoryCategory> StorageCategories(const StepGraph& step) {
  const Graph& graph = step.graph;
  std::vector<MemoryCategory> category(static_cast<size_t>(step.storages), MemoryCategory::kTransient);

  const auto backward = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                     [](const Node& node) { return node.phase == Phase::kBackward; });
  const int64_t first_backward = backward - graph.nodes.begin();
  const std::vector<Use> uses = UsesOf(step);
  for (size_t s = 0; s < category.size(); ++s)
    if (uses[s].first_write < first_backward && uses[s].last_read >= first_backward)
      category[s] = MemoryCategory::kSaved;

  for (const Updated& updated : UpdatesOf(graph)) {
    const ValueId gradient = graph.nodes[updated.node].inputs[updated.gradient];
    category[static_cast<size_t>(step.storage_of[static_cast<size_t>(gradient)])] =
        MemoryCategory::kGradients;
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ValueKind kind = graph.values[v].kind;
    if (!IsPersistent(kind) || step.storage_of[v] < 0) continue;
    category[static_cast<size_t>(step.storage_of[v])] =
        kind == ValueKind::kOptimizer     ? MemoryCategory::kOptimizer
        : kind == ValueKind::kGradientSum ? MemoryCategory::kGradients
                                          : MemoryCategory::kParameters;
  }
  return category;
}

std::vector<CategoryBytes> CategoryTimeline(const StepGraph& step, const StepLayout& layout,
                                            int64_t persistent_bytes) {
  const size_t nodes = step.graph.nodes.size();
  const std::vector<MemoryCategory> category = StorageCategories(step);

  // Differences from node to node, then their running sum.
  std::vector<CategoryBytes> timeline(nodes + 1, CategoryBytes{});
  int64_t elsewhere = persistent_bytes;
  for (size_t s = 0; s < category.size(); ++s) {
    if (layout.offset[s] < 0 || layout.on_host[s]) continue;
    const auto c = static_cast<size_t>(category[s]);
    timeline[static_cast<size_t>(layout.lower[s])][c] += layout.bytes[s];
    timeline[static_cast<size_t>(layout.upper[s])][c] -= layout.bytes[s];
    if (layout.offset[s] < persistent_bytes) elsewhere -= layout.bytes[s];
  }
  timeline[0][static_cast<size_t>(MemoryCategory::kParameters)] += elsewhere;
  for (size_t t = 1; t <= nodes; ++t)
    for (size_t c = 0; c < kMemoryCategories; ++c) timeline[t][c] += timeline[t - 1][c];
  timeline.resize(nodes);
  for (size_t t = 0; t < nodes; ++t)
    timeline[t][static_cast<size_t>(MemoryCategory::kWorkspace)] += layout.workspace_bytes[t];
  return timeline;
}

}  // namespace act
