#include "runtime/executor/memory_check.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/plan/sample_loops.h"

namespace act {
namespace {

constexpr int kDead = 0xFF;

// FNV-1a over 64-bit words, and over bytes at the tail.
uint64_t Hash(const std::byte* data, int64_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;  // multiplication alone moves no high bit into the low half
  }
  for (; bytes > 0; ++data, --bytes) hash = (hash ^ static_cast<uint64_t>(*data)) * kPrime;
  return hash;
}

// The first byte in [begin, end) that is not 0xFF, or null. The fast check: a range equals itself
// shifted by one byte if and only if all its bytes are equal.
const std::byte* FirstTouched(const std::byte* begin, const std::byte* end) {
  if (begin == end) return nullptr;
  const auto size = static_cast<size_t>(end - begin);
  if (*begin == std::byte{kDead} && std::memcmp(begin, begin + 1, size - 1) == 0) return nullptr;
  return std::find_if(begin, end, [](std::byte b) { return b != std::byte{kDead}; });
}

const char* NameOf(bool on_host) { return on_host ? " of the host's arena" : " of the arena"; }

std::string Describe(const Node& node) { return "node '" + node.name + "' (" + node.op + ")"; }

}  // namespace

void FillDead(Memories memories, int64_t persistent_bytes) {
  const auto fill = [](Arena& arena, int64_t from) {
    std::memset(arena.base() + from, kDead, static_cast<size_t>(arena.bytes() - from));
  };
  fill(memories.device, persistent_bytes);
  fill(memories.host, 0);
}

MemoryCheck::MemoryCheck(const BoundGraph& graph, const StepLayout& layout, int64_t persistent_bytes,
                         Memories memories)
    : graph_(graph), layout_(layout), persistent_bytes_(persistent_bytes), memories_(memories) {
  const StepGraph& step = graph.step();
  const std::vector<int32_t> loop_of_storage = LoopOfStorages(step);
  ranges_.resize(static_cast<size_t>(step.storages));
  for (size_t v = 0; v < step.graph.values.size(); ++v) {
    const TensorView& view = graph.view(static_cast<ValueId>(v));
    if (view.data == nullptr || view.bytes == 0) continue;
    const auto storage = static_cast<size_t>(step.storage_of[v]);
    Range& range = ranges_[storage];
    range.on_host = layout.on_host[storage];
    range.begin = layout.offset[storage];
    // at this batch, which may be smaller than the layout's
    range.end = std::max(range.end, range.begin + view.bytes);
    range.lower = layout.lower[storage];
    range.upper = layout.upper[storage];
    range.one_tile = loop_of_storage[storage] >= 0;
    range.name = step.graph.values[v].name;
  }
  for (Range& range : ranges_) range.hash = Hash(Data(range), range.end - range.begin);
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
      std::memset(Data(range), kDead, static_cast<size_t>(range.end - range.begin));
    }
  }
  const std::span<std::byte> workspace = graph_.nodes()[position].workspace;
  std::fill(workspace.begin(), workspace.end(), std::byte{kDead});
  return llvm::Error::success();
}

llvm::Error MemoryCheck::CheckUnchanged(int64_t position, const std::vector<bool>& written) {
  for (size_t s = 0; s < ranges_.size(); ++s) {
    Range& range = ranges_[s];
    if (!LiveAt(range, position)) continue;
    const uint64_t hash = Hash(Data(range), range.end - range.begin);
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
      const std::byte* touched = FirstTouched(arena.base() + dead, arena.base() + begin);
      if (touched != nullptr) {
        return MakeError(Describe(*graph_.nodes()[at].node),
                         "wrote to byte " + std::to_string(touched - arena.base()) + NameOf(on_host) +
                             ", in the dead range " + std::to_string(dead) + " to " + std::to_string(begin));
      }
    }
    dead = std::max(dead, end);
  }
  return llvm::Error::success();
}

}  // namespace act
