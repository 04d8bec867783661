// The values around which a loop over samples is worth a try.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "passes/planning/loop_parts.h"
#include "passes/planning/moving_step.h"

namespace act {

// The nodes between which a value, or a Reshape of it, is made and last read.
struct LoopSpan {
  ValueId value = kNoValue;  // made first
  size_t made = 0, last_read = 0;
  llvm::SmallVector<FamilyId, 1> families;  // made and read in between; the first is that of the value
};

// What has a batch axis, is made and read only by nodes that may run in tiles, and is in no loop.
class LoopSpans {
 public:
  // `bytes` of each value say which is the largest.
  LoopSpans(const MovingStep& step, const LoopParts& parts, std::vector<int64_t> bytes);

  // Hands over those that live at one of the nodes first .. last, the largest first, until `visit` accepts one. Returns
  // whether it did. First of each value alone, then of all that share a storage.
  bool Visit(size_t first, size_t last, llvm::function_ref<bool(const LoopSpan&)> visit) const;

 private:
  bool Fits(const Family& family, const LoopParts& parts) const;
  std::vector<FamilyId> StorageHeads(const std::vector<int32_t>& loop_of_node) const;
  std::vector<LoopSpan> OfStorages(size_t first, size_t last, const std::vector<int32_t>& loop_of_node) const;

  const MovingStep& step_;
  const std::vector<int64_t> bytes_;
  std::vector<bool> fits_;          // of each family
  std::vector<FamilyId> by_bytes_;  // those that fit, without reshapes of inputs
};

}  // namespace act
