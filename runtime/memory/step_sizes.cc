#include "runtime/memory/step_sizes.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/memory/sizes.h"
#include "runtime/plan/fixed_batch.h"
#include "runtime/plan/sample_loops.h"
#include "runtime/plan/swap.h"

namespace act {
namespace {

// Persistent storages lie one after another at the arena's start. Both step graphs find them there
// by name.
class PersistentPlaces {
 public:
  void Place(const StepGraph& step, StepLayout& layout) {
    for (size_t v = 0; v < step.graph.values.size(); ++v) {
      const Value& value = step.graph.values[v];
      if (!IsPersistent(value.kind) || step.storage_of[v] < 0) continue;
      const auto s = static_cast<size_t>(step.storage_of[v]);
      if (layout.bytes[s] == 0 || layout.offset[s] >= 0) continue;
      const auto [it, is_new] = offset_of_.try_emplace(value.name, bytes_);
      if (is_new) bytes_ = SaturatingAdd(bytes_, layout.bytes[s]);
      layout.offset[s] = it->second;
    }
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::map<std::string_view, int64_t> offset_of_;
  int64_t bytes_ = 0;
};

// Whether all sizes together reach 2^60, or nearly so. If not, no later sum overflows.
bool TooLarge(const StepLayout& layout) {
  int64_t sum = 0;
  for (const int64_t bytes : layout.bytes) sum = SaturatingAdd(sum, bytes);
  for (const int64_t bytes : layout.workspace_bytes) sum = SaturatingAdd(sum, bytes);
  return sum >= kTooLarge - layout.alignment;
}

// What shares one arena, each for a part of the step.
class Tenants {
 public:
  explicit Tenants(int64_t alignment) : alignment_(alignment) {}
  // `place` receives the offset. Bytes that never live get none.
  void Add(int64_t lower, int64_t upper, int64_t bytes, int64_t& place) {
    if (bytes == 0 || lower == upper) return;
    problem_.buffers.push_back({lower, upper, bytes, alignment_});
    places_.push_back(&place);
  }
  // Packs them above the arena's first `from` bytes. Returns the end of the highest one. options.enough is of the
  // whole arena.
  int64_t PlaceFrom(int64_t from, PackingOptions options) const {
    options.enough -= from;
    const Packing packing = SolvePacking(problem_, options);
    int64_t highest = from;
    for (size_t i = 0; i < places_.size(); ++i) {
      *places_[i] = from + packing.offsets[i];
      highest = std::max(highest, *places_[i] + problem_.buffers[i].size);
    }
    return highest;
  }

 private:
  int64_t alignment_;
  PackingProblem problem_;
  std::vector<int64_t*> places_;
};

}  // namespace

StepSizes::StepSizes(const StepGraph& step, TargetKind target)
    : step_(step),
      target_(target),
      on_host_(HostStorages(step)),
      loop_of_node_(LoopOfNodes(step.graph)),
      loop_of_storage_(LoopOfStorages(step)) {}

StepLayout StepSizes::At(int64_t batch) const {
  const Graph& graph = step_.graph;
  const auto storages = static_cast<size_t>(step_.storages);
  const auto nodes = static_cast<int64_t>(graph.nodes.size());
  const int64_t end = std::max<int64_t>(1, nodes);  // without nodes, the inputs live for one moment
  StepLayout layout;
  layout.alignment = AlignmentOf(target_);
  layout.on_host = on_host_;
  layout.offset.assign(storages, -1);
  layout.bytes.assign(storages, 0);
  layout.lower.assign(storages, end);
  layout.upper.assign(storages, 0);

  const auto live = [&](ValueId id, int64_t from, int64_t to) {
    if (id == kNoValue) return;
    const StorageId storage = step_.storage_of[static_cast<size_t>(id)];
    if (storage < 0) return;
    const auto s = static_cast<size_t>(storage);
    // A value that a loop over samples shares with the rest of the step lives while any tile runs. If there is
    // one tile, its nodes run as those of no loop do.
    const int32_t loop =
        static_cast<size_t>(from) < loop_of_node_.size() ? loop_of_node_[static_cast<size_t>(from)] : -1;
    if (loop >= 0 && loop_of_storage_[s] != loop && HasTiles(graph.loops[static_cast<size_t>(loop)], batch)) {
      from = std::min(from, graph.loops[static_cast<size_t>(loop)].first);
      to = std::max(to, graph.loops[static_cast<size_t>(loop)].last);
    }
    layout.lower[s] = std::min(layout.lower[s], from);
    layout.upper[s] = std::max(layout.upper[s], to);
  };
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (step_.storage_of[v] < 0) continue;
    const auto s = static_cast<size_t>(step_.storage_of[v]);
    const int32_t loop = loop_of_storage_[s];
    layout.bytes[s] =
        std::max(layout.bytes[s], StorageBytes(graph, loop, graph.values[v].type, batch, layout.alignment));
    if (IsPersistent(graph.values[v].kind)) live(static_cast<ValueId>(v), 0, end);
  }
  // The user's inputs are written before the first node.
  for (const ValueId id : graph.inputs) live(id, 0, 1);
  for (int64_t t = 0; t < nodes; ++t) {
    const Node& node = graph.nodes[static_cast<size_t>(t)];
    for (const ValueId id : node.inputs) live(id, t, t + 1);
    for (const ValueId id : node.outputs) live(id, t, t + 1);
    const int32_t loop = loop_of_node_[static_cast<size_t>(t)];
    layout.workspace_bytes.push_back(WorkspaceBytes(graph, node, loop, batch, target_));
  }
  for (const ValueId id : graph.outputs) live(id, end - 1, end);
  for (size_t s = 0; s < storages; ++s)
    if (layout.upper[s] <= layout.lower[s]) layout.lower[s] = layout.upper[s] = 0;
  layout.workspace_offset.assign(graph.nodes.size(), -1);
  return layout;
}

llvm::Expected<MemoryLayout> PlanSizes::At(int64_t batch) const {
  if (batch < 1) return MakeError("--batch=" + std::to_string(batch), "a batch has at least one sample");
  if (plan_.fixed_batch && !AcceptsFixedBatch(plan_.train.graph, plan_.default_batch, batch)) {
    return MakeError("--batch=" + std::to_string(batch),
                     "the model's batch size is fixed at " + std::to_string(plan_.default_batch),
                     "export the model with a symbolic first axis");
  }
  MemoryLayout result;
  result.target = target_;
  result.batch = batch;
  result.train = train_.At(batch);
  result.eval = eval_.At(batch);
  if (TooLarge(result.train) || TooLarge(result.eval)) {
    return MakeError("--batch=" + std::to_string(batch), "the tensors have more than 2^60 bytes");
  }
  PersistentPlaces places;
  places.Place(plan_.train, result.train);
  places.Place(plan_.eval, result.eval);
  result.persistent_bytes = places.bytes();
  for (StepLayout* layout : {&result.train, &result.eval}) {
    layout->timeline = Timeline(*layout, result.persistent_bytes);
    const auto highest = std::max_element(layout->timeline.begin(), layout->timeline.end());
    layout->peak_node = highest - layout->timeline.begin();
    layout->lower_bound_bytes = layout->timeline.empty() ? result.persistent_bytes : *highest;
  }
  return result;
}

std::vector<int64_t> Timeline(const StepLayout& layout, int64_t persistent_bytes) {
  const size_t nodes = layout.workspace_bytes.size();
  std::vector<int64_t> change(std::max<size_t>(1, nodes) + 1, 0);
  for (size_t s = 0; s < layout.bytes.size(); ++s) {
    if (layout.offset[s] >= 0 || layout.on_host[s] || layout.upper[s] == layout.lower[s]) continue;
    const auto lower = static_cast<size_t>(layout.lower[s]), upper = static_cast<size_t>(layout.upper[s]);
    change[lower] += layout.bytes[s];
    change[upper] -= layout.bytes[s];
  }
  std::vector<int64_t> timeline(nodes);
  int64_t live = persistent_bytes;
  for (size_t t = 0; t < nodes; ++t) {
    live += change[t];
    timeline[t] = live + layout.workspace_bytes[t];
  }
  return timeline;
}

void PlaceTransients(int64_t persistent_bytes, const PackingOptions& options, StepLayout& layout) {
  Tenants device(layout.alignment), host(layout.alignment);
  for (size_t s = 0; s < layout.bytes.size(); ++s)
    if (layout.offset[s] < 0)
      (layout.on_host[s] ? host : device)
          .Add(layout.lower[s], layout.upper[s], layout.bytes[s], layout.offset[s]);
  for (size_t t = 0; t < layout.workspace_bytes.size(); ++t) {
    const auto now = static_cast<int64_t>(t);
    device.Add(now, now + 1, layout.workspace_bytes[t], layout.workspace_offset[t]);
  }
  layout.peak_bytes = device.PlaceFrom(persistent_bytes, options);
  layout.host_peak_bytes = host.PlaceFrom(0, options);
}

MemoryLayout Packed(const MemoryLayout& sizes, const PackingOptions& options) {
  MemoryLayout layout = sizes;
  PlaceTransients(layout.persistent_bytes, options, layout.train);
  // Evaluation mostly takes less than training however it is packed.
  PlaceTransients(layout.persistent_bytes, QuickPacking(), layout.eval);
  if (layout.eval.peak_bytes > layout.train.peak_bytes ||
      layout.eval.host_peak_bytes > layout.train.host_peak_bytes) {
    layout.eval = sizes.eval;
    PlaceTransients(layout.persistent_bytes, options, layout.eval);
  }
  layout.arena_bytes = std::max(layout.train.peak_bytes, layout.eval.peak_bytes);
  layout.host_bytes = std::max(layout.train.host_peak_bytes, layout.eval.host_peak_bytes);
  return layout;
}

}  // namespace act
