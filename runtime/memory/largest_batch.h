// The largest batches of a plan that fit several memories (layout.h: LargestBatch).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/memory/layout.h"
#include "runtime/memory/step_sizes.h"

namespace act {

// What is found out for the first memory serves the others. The plan must outlive this.
class BatchSearch {
 public:
  BatchSearch(const Plan& plan, Arenas arenas, TargetKind target)
      : plan_(plan), arenas_(arenas), sizes_(plan, target) {}

  // LargestBatch of `bytes`.
  int64_t Largest(int64_t bytes);
  // That of each memory. Several threads search, and the result does not depend on their number.
  std::vector<int64_t> Largest(const std::vector<int64_t>& memories);

 private:
  int64_t BoundAt(int64_t batch);
  bool Fits(int64_t batch, int64_t bytes);

  const Plan& plan_;
  const Arenas arenas_;
  const PlanSizes sizes_;
  std::map<int64_t, int64_t> bounds_;  // by batch
  double ratio_ = 1;                   // of the arenas to the bound, at the batch that was packed last
};

}  // namespace act
