// Where every storage of a plan lies at one batch size: the same code in actc (report) and actrun (run).
// There are two arenas: the device's, which is meant where it is not said, and the host's, for what is
// swapped (runtime/plan/swap.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

inline constexpr int64_t kArenaAlignment = 64;

// What a byte at the peak is for. Categories are counted at the peak op and add up to the peak.
enum class MemoryCategory : uint8_t {
  kParameters,  // parameters, buffers and constants
  kGradients,   // parameter gradients (inputs of updates)
  kOptimizer,
  kSaved,      // values that cross from the forward to the backward pass
  kTransient,  // everything else: activations within a pass, decoded temporaries, inputs
  kWorkspace,
};
inline constexpr int kMemoryCategories = 6;
const char* ToString(MemoryCategory category);

// One step graph (train or eval) laid out.
struct StepLayout {
  std::vector<bool> on_host;    // of each storage: in the host's arena, and counted in host_peak_bytes alone
  std::vector<int64_t> offset;  // of each storage, bytes from its arena's start; -1: has no bytes
  std::vector<int64_t> bytes;   // of each storage
  std::vector<int64_t> lower, upper;      // of each storage: half-open live range in node positions
  std::vector<int64_t> workspace_offset;  // of each node; -1: none
  std::vector<int64_t> workspace_bytes;   // of each node, rounded up to the alignment
  std::vector<int64_t> timeline;          // live bytes at each node
  int64_t peak_bytes = 0;                 // highest byte touched by any node: max(offset + bytes)
  int64_t lower_bound_bytes = 0;          // max of the timeline: no layout can be smaller
  int64_t peak_node = 0;                  // position of the node where the timeline is highest
  int64_t category_bytes[kMemoryCategories] =
      {};                       // at peak_node; padding and fragmentation are in kTransient
  int64_t host_peak_bytes = 0;  // highest byte of the host's arena
};

struct MemoryLayout {
  int64_t batch = 0;
  int64_t persistent_bytes = 0;  // parameters, buffers, constants, optimizer state: at the arena's start
  StepLayout train, eval;        // persistent storages have the same offsets in both; eval may be empty
  int64_t arena_bytes = 0;       // max of both peaks
  int64_t host_bytes = 0;        // of the host's arena: max of both
};

// Lays out both step graphs at `batch`. The result of a smaller batch fits at the same offsets (sizes grow with N), so a
// last partial batch runs in the layout of the full one. Errors: batch < 1, a size over 2^60.
llvm::Expected<MemoryLayout> LayOut(const Plan& plan, int64_t batch);

// Bytes that live on the device at each node at `batch`, parameters included: no layout can be smaller than
// the largest.
std::vector<int64_t> LiveBytes(const StepGraph& step, int64_t batch);

// Independent check (shares no code with LayOut): ranges of one arena that live at the same node do not
// overlap, every value a node reads or writes is inside its storage's live range, what SwapOut writes and
// nothing else is in the host's arena, persistent storages agree between train and eval.
llvm::Error ValidateLayout(const Plan& plan, const MemoryLayout& layout);

// What a memory has to hold: the device's the arena alone, a machine without another one both.
enum class Arenas : uint8_t { kDevice, kBoth };
inline int64_t BytesOf(const MemoryLayout& layout, Arenas arenas) {
  return SaturatingAdd(layout.arena_bytes, arenas == Arenas::kBoth ? layout.host_bytes : 0);
}

// The largest batch whose arena, or arenas, are at most `bytes`; 0 where not even one sample fits.
llvm::Expected<int64_t> LargestBatch(const Plan& plan, int64_t bytes, Arenas arenas = Arenas::kDevice);

}  // namespace act
