// The kind of machine whose kernels run a plan, as far as sizes depend on it. A plan's bounds are computed for a
// target, and that target's kernels ask the same functions.
#pragma once

#include <cstdint>

namespace act {

// Sums over rows are made in parts, which are then added in order: the result is the same however many threads
// or blocks a machine has. So the number of parts may depend on the target and on shapes, and on nothing else.
// A kernel makes fewer parts where there are not as many rows: rows vary with the batch, a bound holds for any.
class Target {
 public:
  virtual ~Target() = default;
  // Parts of a fused loop's sum over leading axes, of `columns` results. Never more for more columns.
  virtual int64_t LoopSumParts(int64_t columns) const = 0;
  // Parts of the statistics or the reduction of rows with `columns` results.
  virtual int64_t RowSumParts(int64_t columns) const = 0;
  // Sums in which a gradient of `elements` is made that heads or samples share (of a bias in attention).
  virtual int64_t SharedGradientParts(int64_t elements) const = 0;
};

const Target& CpuTarget();

}  // namespace act
