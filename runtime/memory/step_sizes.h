// Sizes and live ranges of a plan's storages, at one batch size after another.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "runtime/memory/layout.h"

namespace act {

// Of one step graph, which must outlive this.
class StepSizes {
 public:
  StepSizes(const StepGraph& step, TargetKind target);

  // Sizes and live ranges alone.
  StepLayout At(int64_t batch) const;

 private:
  const StepGraph& step_;
  const TargetKind target_;
  const std::vector<bool> on_host_;                            // of storages
  const std::vector<int32_t> loop_of_node_, loop_of_storage_;  // -1: none
};

// Of both step graphs of a plan, which must outlive this.
class PlanSizes {
 public:
  PlanSizes(const Plan& plan, TargetKind target)
      : plan_(plan), target_(target), train_(plan.train, target), eval_(plan.eval, target) {}

  // A layout in which nothing but what is persistent has a place: sizes, live ranges, timelines and lower bounds.
  // Errors: LayOut's.
  llvm::Expected<MemoryLayout> At(int64_t batch) const;

 private:
  const Plan& plan_;
  const TargetKind target_;
  const StepSizes train_, eval_;
};

// Live bytes of the device at each node, of a layout with the places of what is persistent; `persistent_bytes` has the
// bytes of these. Saturates.
std::vector<int64_t> Timeline(const StepLayout& layout, int64_t persistent_bytes);

// Places everything that is not persistent, and sets both peaks. On the device it lies above what is persistent.
void PlaceTransients(int64_t persistent_bytes, const PackingOptions& options, StepLayout& layout);

// The few ways to pack that take the least time. All ways together find a packing that takes no more.
inline PackingOptions QuickPacking() {
  return {.heuristics = 1u << static_cast<uint32_t>(PackingHeuristic::kSkylineByPressure) |
                        1u << static_cast<uint32_t>(PackingHeuristic::kSkylineByPressureAndSize) |
                        1u << static_cast<uint32_t>(PackingHeuristic::kSkylineByLength)};
}

// The layout with all its places and arenas. What an arena takes is what LayOut makes of it with these options; but where
// evaluation takes less than training, its places may be others.
MemoryLayout Packed(const MemoryLayout& sizes, const PackingOptions& options);

}  // namespace act
