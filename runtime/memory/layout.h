// The place of every storage of a plan at one batch size. The same code serves actc (report) and
// actrun (run). There are two arenas, the device's and the host's. The host's holds what is swapped
// (runtime/plan/swap.h). Unless stated otherwise, "arena" means the device's.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/memory/packing.h"
#include "runtime/plan/plan.h"

namespace act {

// The purpose of a byte at the peak. Categories are counted at the peak node and add up to the
// peak.
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
  int64_t alignment = 0;  // of the arenas, in bytes (AlignmentOf)
  // of each storage: it lies in the host's arena, and counts in host_peak_bytes alone
  std::vector<bool> on_host;
  std::vector<int64_t> offset;            // of each storage, in its arena; -1: it has no bytes
  std::vector<int64_t> bytes;             // of each storage
  std::vector<int64_t> lower, upper;      // of each storage: half-open live range in node positions
  std::vector<int64_t> workspace_offset;  // of each node; -1: none
  std::vector<int64_t> workspace_bytes;   // of each node on the target, rounded up to the alignment
  std::vector<int64_t> timeline;          // live bytes at each node
  int64_t peak_bytes = 0;                 // highest byte touched by any node: max(offset + bytes)
  int64_t lower_bound_bytes = 0;          // max of the timeline: no layout can be smaller
  int64_t peak_node = 0;                  // position of the node where the timeline is highest
  // At peak_node. Padding and fragmentation are in kTransient.
  int64_t category_bytes[kMemoryCategories] = {};
  int64_t host_peak_bytes = 0;  // highest byte of the host's arena
};

struct MemoryLayout {
  TargetKind target = TargetKind::kCpu;
  int64_t batch = 0;
  // parameters, buffers, constants, optimizer state: at the arena's start
  int64_t persistent_bytes = 0;
  // persistent storages have the same offsets in both; eval may be empty
  StepLayout train, eval;
  int64_t arena_bytes = 0;  // max of both peaks
  int64_t host_bytes = 0;   // of the host's arena: max of both
};

// Lays out both step graphs at `batch`, for a run on `target`. A smaller batch fits at the same offsets,
// since sizes grow with N, so a last partial batch runs in the layout of the full one. Errors: batch <
// 1, a size over 2^60. A run lays its plan out with all of the packing search; fewer ways are for estimates.
llvm::Expected<MemoryLayout> LayOut(const Plan& plan, int64_t batch, TargetKind target = TargetKind::kCpu,
                                    const PackingOptions& packing = {});

// Bytes that live on the device at each node at `batch`, parameters included. No layout for the
// target can be smaller than the largest of them.
std::vector<int64_t> LiveBytes(const StepGraph& step, int64_t batch, TargetKind target);

// Checks a layout independently (shares no code with LayOut). Ranges of one arena that live at the same
// node do not overlap, and have the alignment and the workspaces of the layout's target. Every value
// that a node reads or writes is inside its storage's live range. The host's arena holds what SwapOut
// writes and nothing else. Persistent storages agree between train and eval.
llvm::Error ValidateLayout(const Plan& plan, const MemoryLayout& layout);

// The arenas that a memory has to hold: the device's alone, or both on a machine without other
// memory.
enum class Arenas : uint8_t { kDevice, kBoth };
inline int64_t BytesOf(const MemoryLayout& layout, Arenas arenas) {
  return SaturatingAdd(layout.arena_bytes, arenas == Arenas::kBoth ? layout.host_bytes : 0);
}

// The largest batch whose arena, or arenas, take at most `bytes` on the target, while one step more takes more. 0 if
// not even one sample fits. `batch` sets the step: 1 below 1024 samples, at most a 512th below 65,536, and at most a 64th above.
int64_t LargestBatchStep(int64_t batch);
llvm::Expected<int64_t> LargestBatch(const Plan& plan, int64_t bytes, Arenas arenas = Arenas::kDevice,
                                     TargetKind target = TargetKind::kCpu);

}  // namespace act
