#include "runtime/memory/layout.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/memory/categories.h"
#include "runtime/memory/packing.h"
#include "runtime/plan/sample_loops.h"
#include "runtime/plan/swap.h"

namespace act {
namespace {

// Evaluated axis by axis, as the executor does it. Never negative; saturates.
int64_t BytesAt(const TensorType& type, int64_t batch) {
  return std::max<int64_t>(0, SaturatingMul(ElementCount(DimsAt(type.dims, batch)), ByteSize(type.dtype)));
}

// Scratch space of a node that runs `samples` at a time. In tiles, after the kernel's own scratch space
// comes room for each sum over samples: the part of one tile, before it is added to the others.
int64_t WorkspaceBytes(const Graph& graph, const Node& node, TargetKind target, int64_t samples,
                       bool in_tiles) {
  const int64_t alignment = AlignmentOf(target);
  int64_t bytes = RoundUp(node.workspace_bytes[target].At(samples), alignment);
  if (!in_tiles) return bytes;
  for (const ValueId id : node.outputs)
    if (IsSumOfTiles(graph, node, id))
      bytes = SaturatingAdd(bytes, RoundUp(BytesAt(graph.value(id).type, samples), alignment));
  return bytes;
}

// Sizes and live ranges of one step graph at `batch`; no offsets yet.
StepLayout Measure(const StepGraph& step, int64_t batch, TargetKind target) {
  const Graph& graph = step.graph;
  const auto storages = static_cast<size_t>(step.storages);
  const auto nodes = static_cast<int64_t>(graph.nodes.size());
  const int64_t end = std::max<int64_t>(1, nodes);  // without nodes, the inputs live for one moment
  StepLayout layout;
  layout.alignment = AlignmentOf(target);
  layout.on_host = HostStorages(step);
  layout.offset.assign(storages, -1);
  layout.bytes.assign(storages, 0);
  layout.lower.assign(storages, end);
  layout.upper.assign(storages, 0);

  const std::vector<int32_t> loop_of_node = LoopOfNodes(graph), loop_of_storage = LoopOfStorages(step);
  const auto live = [&](ValueId id, int64_t from, int64_t to) {
    if (id == kNoValue) return;
    const StorageId storage = step.storage_of[static_cast<size_t>(id)];
    if (storage < 0) return;
    const auto s = static_cast<size_t>(storage);
    // A value that a loop over samples shares with the rest of the step lives while any tile runs. If there is
    // one tile, its nodes run as those of no loop do.
    const int32_t loop =
        static_cast<size_t>(from) < loop_of_node.size() ? loop_of_node[static_cast<size_t>(from)] : -1;
    if (loop >= 0 && loop_of_storage[s] != loop && HasTiles(graph.loops[static_cast<size_t>(loop)], batch)) {
      from = std::min(from, graph.loops[static_cast<size_t>(loop)].first);
      to = std::max(to, graph.loops[static_cast<size_t>(loop)].last);
    }
    layout.lower[s] = std::min(layout.lower[s], from);
    layout.upper[s] = std::max(layout.upper[s], to);
  };
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (step.storage_of[v] < 0) continue;
    const auto s = static_cast<size_t>(step.storage_of[v]);
    const int32_t loop = loop_of_storage[s];
    const int64_t bytes =
        BytesAt(TypeIn(graph, loop, graph.values[v].type), SamplesAtATime(graph, loop, batch));
    layout.bytes[s] = std::max(layout.bytes[s], RoundUp(bytes, layout.alignment));
    if (IsPersistent(graph.values[v].kind)) live(static_cast<ValueId>(v), 0, end);
  }
  // The user's inputs are written before the first node.
  for (const ValueId id : graph.inputs) live(id, 0, 1);
  for (int64_t t = 0; t < nodes; ++t) {
    const Node& node = graph.nodes[static_cast<size_t>(t)];
    for (const ValueId id : node.inputs) live(id, t, t + 1);
    for (const ValueId id : node.outputs) live(id, t, t + 1);
    const int32_t loop = loop_of_node[static_cast<size_t>(t)];
    const bool in_tiles = loop >= 0 && HasTiles(graph.loops[static_cast<size_t>(loop)], batch);
    layout.workspace_bytes.push_back(
        WorkspaceBytes(graph, node, target, SamplesAtATime(graph, loop, batch), in_tiles));
  }
  for (const ValueId id : graph.outputs) live(id, end - 1, end);
  for (size_t s = 0; s < storages; ++s)
    if (layout.upper[s] <= layout.lower[s]) layout.lower[s] = layout.upper[s] = 0;
  layout.workspace_offset.assign(graph.nodes.size(), -1);
  return layout;
}

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

// Live bytes of the device at each node. Needs the persistent offsets to know which storages
// persistent_bytes counts already. Saturates.
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

// Whether all sizes together reach 2^60, or nearly so. If not, no later sum overflows.
bool TooLarge(const StepLayout& layout) {
  int64_t sum = 0;
  for (const int64_t bytes : layout.bytes) sum = SaturatingAdd(sum, bytes);
  for (const int64_t bytes : layout.workspace_bytes) sum = SaturatingAdd(sum, bytes);
  return sum >= kTooLarge - layout.alignment;
}

// A model without a batch axis may still have a batch: the first extent of an input. If its inputs
// have different first extents (the nodes and the edges of a graph), each of them is accepted, and
// none changes anything.
bool IsFixedBatch(const Plan& plan, int64_t batch) {
  if (batch == plan.default_batch) return true;
  const Graph& graph = plan.train.graph;
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId v) {
    const Dims& dims = graph.value(v).type.dims;
    return !dims.empty() && dims[0] == Dim(batch);
  });
}

// Both step graphs, measured up to their lower bounds.
llvm::Expected<MemoryLayout> MeasureBoth(const Plan& plan, int64_t batch, TargetKind target) {
  if (batch < 1) return MakeError("--batch=" + std::to_string(batch), "a batch has at least one sample");
  if (plan.fixed_batch && !IsFixedBatch(plan, batch)) {
    return MakeError("--batch=" + std::to_string(batch),
                     "the model's batch size is fixed at " + std::to_string(plan.default_batch),
                     "export the model with a symbolic first axis");
  }
  MemoryLayout result;
  result.target = target;
  result.batch = batch;
  result.train = Measure(plan.train, batch, target);
  result.eval = Measure(plan.eval, batch, target);
  if (TooLarge(result.train) || TooLarge(result.eval)) {
    return MakeError("--batch=" + std::to_string(batch), "the tensors have more than 2^60 bytes");
  }
  PersistentPlaces places;
  places.Place(plan.train, result.train);
  places.Place(plan.eval, result.eval);
  result.persistent_bytes = places.bytes();
  for (StepLayout* layout : {&result.train, &result.eval}) {
    layout->timeline = Timeline(*layout, result.persistent_bytes);
    const auto highest = std::max_element(layout->timeline.begin(), layout->timeline.end());
    layout->peak_node = highest - layout->timeline.begin();
    layout->lower_bound_bytes = layout->timeline.empty() ? result.persistent_bytes : *highest;
  }
  return result;
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
  // Packs them above the arena's first `from` bytes. Returns the end of the highest one.
  int64_t PlaceFrom(int64_t from, const PackingOptions& options) const {
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

// Places everything that is not persistent. On the device it lies above what is persistent.
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

void CountCategories(const StepGraph& step, int64_t persistent_bytes, StepLayout& layout) {
  if (layout.timeline.empty()) return;
  const auto peak = static_cast<size_t>(layout.peak_node);
  const CategoryBytes at_peak = CategoryTimeline(step, layout, persistent_bytes)[peak];
  std::copy(at_peak.begin(), at_peak.end(), layout.category_bytes);
  layout.category_bytes[static_cast<size_t>(MemoryCategory::kTransient)] +=
      layout.peak_bytes - layout.lower_bound_bytes;
}

}  // namespace

std::vector<int64_t> LiveBytes(const StepGraph& step, int64_t batch, TargetKind target) {
  return Timeline(Measure(step, batch, target), 0);
}

llvm::Expected<MemoryLayout> LayOut(const Plan& plan, int64_t batch, TargetKind target,
                                    const PackingOptions& packing) {
  ACT_TRY(MemoryLayout result, MeasureBoth(plan, batch, target));
  PlaceTransients(result.persistent_bytes, packing, result.train);
  PlaceTransients(result.persistent_bytes, packing, result.eval);
  CountCategories(plan.train, result.persistent_bytes, result.train);
  CountCategories(plan.eval, result.persistent_bytes, result.eval);
  result.arena_bytes = std::max(result.train.peak_bytes, result.eval.peak_bytes);
  result.host_bytes = std::max(result.train.host_peak_bytes, result.eval.host_peak_bytes);
  return result;
}

namespace {

constexpr int64_t kMostSamples = int64_t{1} << 40;

// The number in [low, high) for which `fits` holds, while it does not for the next. fits(low) must hold and
// fits(high) must not. Tries `first` first.
template <class Fits>
int64_t Bisect(int64_t low, int64_t high, int64_t first, Fits fits) {
  for (int64_t middle = first; high - low > 1; middle = low + (high - low) / 2) {
    if (middle <= low || middle >= high) middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

int64_t LargestBatchStep(int64_t batch) {
  const int64_t share = batch < 1 << 16 ? batch / 512 : batch / 64;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, share))));
}

llvm::Expected<int64_t> LargestBatch(const Plan& plan, int64_t bytes, Arenas arenas, TargetKind target) {
  // The repair search is the slowest and only lowers a packing: what fits without it fits.
  const PackingOptions quick = PackingOptions().Without(PackingHeuristic::kRepairSearch);
  const auto arena_at = [&plan, arenas, target, quick](int64_t batch) -> int64_t {
    llvm::Expected<MemoryLayout> layout = LayOut(plan, batch, target, quick);
    if (layout) return BytesOf(*layout, arenas);
    llvm::consumeError(layout.takeError());  // too large
    return kTooLarge;
  };
  const auto bound_at = [&plan, target](int64_t batch) -> int64_t {
    llvm::Expected<MemoryLayout> layout = MeasureBoth(plan, batch, target);
    if (layout) return std::max(layout->train.lower_bound_bytes, layout->eval.lower_bound_bytes);
    llvm::consumeError(layout.takeError());
    return kTooLarge;
  };
  if (plan.fixed_batch) return arena_at(plan.default_batch) <= bytes ? plan.default_batch : 0;
  // The lower bound is cheap to compute. A packing mostly reaches it, or misses it by a ratio that
  // hardly depends on the batch. So few packings need to be solved: at the batch where the bound
  // reaches `bytes`, and at the batch where the bound times that ratio does.
  int64_t beyond = 1;
  while (beyond < kMostSamples && bound_at(beyond) <= bytes) beyond *= 2;
  const int64_t bound =
      Bisect(beyond / 2, beyond, beyond / 2, [&](int64_t n) { return bound_at(n) <= bytes; });
  if (bound == 0) return 0;
  const int64_t arena = arena_at(bound);
  if (arena <= bytes) return bound;
  const double ratio = static_cast<double>(arena) / static_cast<double>(bound_at(bound));
  const auto likely = [&](int64_t n) {
    return static_cast<double>(bound_at(n)) * ratio <= static_cast<double>(bytes);
  };
  // Each try is a packing, and how far one misses the bound may change from batch to batch. So large batches are
  // searched in steps.
  const int64_t step = LargestBatchStep(bound);
  int64_t low = Bisect(0, bound, bound - bound / 64, likely) / step, high = (bound + step - 1) / step;
  const auto fits = [&](int64_t steps) { return arena_at(steps * step) <= bytes; };
  for (int64_t stride = 1; low > 0 && !fits(low); stride *= 2) {
    high = low;
    low = std::max<int64_t>(0, low - stride);
  }
  return Bisect(low, high, low + 1, fits) * step;
}

}  // namespace act
