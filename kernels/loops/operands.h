// The operands of a fused loop over its iteration space: where they lie, and how often they change.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/site/fused_shape.h"
#include "runtime/executor/kernel.h"

namespace act {

enum class OperandKind : uint8_t {
  kElements,  // float32, one for each element, in the space's order
  kCode,      // a code of the whole space
  // trailing axes of the space: element i reads number i % period. Period 1: one number
  kColumn,
  kRow,        // one number a row
  kBroadcast,  // any other shape or type: read by a pattern
};

struct LoopOperand {
  OperandKind kind = OperandKind::kElements;
  int64_t period = 0;  // kColumn
};

// One for each operand of a site whose shape is `shape`. A column of more than `longest_column`
// elements counts as a broadcast.
std::vector<LoopOperand> ClassifyOperands(const KernelSite& site, const FusedShape& shape,
                                          int64_t longest_column);

// How a kBroadcast operand lies in memory: its axes after merging, innermost last.
struct ReadPattern {
  std::vector<int64_t> extents, strides;  // elements
};
ReadPattern PatternOf(const TensorView& view, const FusedShape& shape);

}  // namespace act
