#include "runtime/executor/memory_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

constexpr std::byte kDead{0xFF};

const char* NameOf(bool on_host) { return on_host ? " of the host's arena" : " of the arena"; }

std::string Describe(const Node& node) { return "node '" + node.name + "' (" + node.op + ")"; }

}  // namespace

llvm::Error FillDead(Device& device, Memories memories, int64_t persistent_bytes) {
  const auto fill = [&device](Arena& arena, int64_t from) {
    return device.FillBytes(arena.base() + from, kDead, arena.bytes() - from);
  };
  ACT_CHECK_OK(fill(memories.device, persistent_bytes));
  return fill(memories.host, 0);
}

llvm::Expected<MemoryCheck> MemoryCheck::Begin(const BoundGraph& graph, const StepLayout& layout,
                                               int64_t persistent_bytes, Memories memories) {
  MemoryCheck check(graph, layout, persistent_bytes, memories);
  const StepGraph& step = graph.step();
  const std::vector<int32_t> loop_of_storage = LoopOfStorages(step);
  check.ranges_.resize(static_cast<size_t>(step.storages));
  for (size_t v = 0; v < step.graph.values.size(); ++v) {
    const TensorView& view = graph.view(static_cast<ValueId>(v));
    if (!view.data || view.bytes == 0) continue;
    const auto storage = static_cast<size_t>(step.storage_of[v]);
    Range& range = check.ranges_[storage];
    range.on_host = layout.on_host[storage];
    range.begin = layout.offset[storage];
    // at this batch, which may be smaller than the layout's
    range.end = std::max(range.end, range.begin + view.bytes);
    range.lower = layout.lower[storage];
    range.upper = layout.upper[storage];
    range.one_tile = loop_of_storage[storage] >= 0;
    range.name = step.graph.values[v].name;
  }
  for (Range& range : check.ranges_) {
    ACT_TRY(range.hash, check.Hash(range));
  }
  return check;
}

llvm::Error MemoryCheck::AfterNode(size_t position) {
  const Node& node = *graph_.nodes()[position].node;
  const StepGraph& step = graph_.step();
  std::vector<bool> written(ranges_.size());
  const auto mark = [&](ValueId id) {
    if (id != kNoValue && step.storage_of[static_cast<size_t>(id)] >= 0) {
      written[static_cast<size_t>(step.storage_of[static_cast<size_t>(id)])] = true;
    }
  };
  for (ValueId id : node.outputs) mark(id);
  for (int32_t input : node.mutates) mark(node.inputs[static_cast<size_t>(input)]);

  const auto now = static_cast<int64_t>(position);
  ACT_CHECK_OK(CheckUnchanged(now, written));
  for (const bool on_host : {false, true}) ACT_CHECK_OK(CheckDead(now, on_host));
  const bool is_last =
      position + 1 == graph_.nodes().size();  // what lives until the end is read after the run
  for (const Range& range : ranges_) {
    const bool ends = range.upper == now + 1 && (range.one_tile || (graph_.OnLastTile() && !is_last));
    if (ends && (range.on_host || range.begin >= persistent_bytes_)) {
      ACT_CHECK_OK(graph_.device().FillBytes(Data(range), kDead, range.end - range.begin));
    }
  }
  const DeviceRange workspace = graph_.nodes()[position].workspace;
  return graph_.device().FillBytes(workspace.data, kDead, workspace.bytes);
}

llvm::Error MemoryCheck::CheckUnchanged(int64_t position, const std::vector<bool>& written) {
  for (size_t s = 0; s < ranges_.size(); ++s) {
    Range& range = ranges_[s];
    if (!LiveAt(range, position)) continue;
    ACT_TRY(const uint64_t hash, Hash(range));
    // In a loop over samples a tensor lives before the node that writes it runs.
    const bool is_new = !range.seen && range.lower > 0;
    range.seen = true;
    if (!written[s] && !is_new && hash != range.hash) {
      return MakeError(Describe(*graph_.nodes()[static_cast<size_t>(position)].node),
                       "changed tensor '" + range.name + "' (bytes " + std::to_string(range.begin) + " to " +
                           std::to_string(range.end) + NameOf(range.on_host) + "), which is not its own");
    }
    range.hash = hash;
  }
  return llvm::Error::success();
}

llvm::Error MemoryCheck::CheckDead(int64_t position, bool on_host) {
  const Arena& arena = memories_.Of(on_host);
  std::vector<std::pair<int64_t, int64_t>> live = {{0, on_host ? 0 : persistent_bytes_},
                                                   {arena.bytes(), arena.bytes()}};
  for (const Range& range : ranges_) {
    if (range.on_host == on_host && LiveAt(range, position)) live.emplace_back(range.begin, range.end);
  }
  const auto at = static_cast<size_t>(position);
  if (!on_host && layout_.workspace_offset[at] >= 0) {
    live.emplace_back(layout_.workspace_offset[at],
                      layout_.workspace_offset[at] + layout_.workspace_bytes[at]);
  }
  std::sort(live.begin(), live.end());
  int64_t dead = 0;  // where the current dead range begins
  for (const auto& [begin, end] : live) {
    if (begin > dead) {
      ACT_TRY(const int64_t untouched, graph_.device().FindOther(arena.base() + dead, kDead, begin - dead));
      if (untouched < begin - dead) {
        return MakeError(Describe(*graph_.nodes()[at].node),
                         "wrote to byte " + std::to_string(dead + untouched) + NameOf(on_host) +
                             ", in the dead range " + std::to_string(dead) + " to " + std::to_string(begin));
      }
    }
    dead = std::max(dead, end);
  }
  return llvm::Error::success();
}

}  // namespace act
