// The bytes that live at some nodes of a step after they have moved or got into a loop over samples. Whether values
// share a storage depends on the nodes that make and read them alone, so no storage is assigned to know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "passes/planning/moving_step.h"
#include "runtime/base/target.h"

namespace act {

// At one batch size.
class LiveWindow {
 public:
  LiveWindow(const MovingStep& step, int64_t batch, TargetKind target);

  // What LiveBytes (runtime/memory/layout.h) says of the nodes at lo, lo + 1, .. if these are `nodes`, those that stand
  // there now in another order, and the graph's loops are as they are. A loop lies among these nodes or elsewhere.
  std::vector<int64_t> BytesAt(size_t lo, std::span<const NodeNumber> nodes) const;

 private:
  struct Life;
  struct Lives;
  struct Window;

  std::vector<int32_t> LoopsIn(size_t lo, size_t count) const;
  Lives LivesIn(const Window& window) const;
  void Share(const Window& window, Lives& lives) const;
  int64_t FamilyBytes(const Family& family, int32_t loop) const;

  const MovingStep& step_;
  const int64_t batch_;
  const TargetKind target_;
  std::vector<FamilyId> inputs_, outputs_;
  std::vector<int64_t> whole_bytes_;      // of each family outside of loops; 0: it has none in this arena
  std::vector<int64_t> workspace_bytes_;  // of each node outside of loops
  int64_t persistent_bytes_ = 0;
};

}  // namespace act
