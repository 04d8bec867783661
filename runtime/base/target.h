// The kind of machine whose kernels run a plan, as far as sizes depend on it. A plan's bounds are
// computed for a target, and that target's kernels ask the same functions.
#pragma once

#include <cstdint>

namespace act {

// A sum over rows is computed in parts, which are then added in order, so that the result does not
// depend on the number of threads or blocks of a machine. The number of parts may therefore depend
// on the target and on shapes, and on nothing else. A kernel computes fewer parts if there are
// fewer rows: the number of rows varies with the batch, and a bound holds for any batch.
class Target {
 public:
  virtual ~Target() = default;
  // Parts of a fused loop's sum over leading axes, with `columns` results. More columns never give
  // more parts.
  virtual int64_t LoopSumParts(int64_t columns) const = 0;
  // Parts of the statistics or of the reduction of rows, with `columns` results.
  virtual int64_t RowSumParts(int64_t columns) const = 0;
  // Parts of a gradient of `elements` elements that heads or samples share (of a bias
  // in attention).
  virtual int64_t SharedGradientParts(int64_t elements) const = 0;
};

const Target& CpuTarget();

}  // namespace act
