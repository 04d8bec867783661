#pragma once

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/math/step_block.h"

namespace act::cuda {

inline constexpr int kIntegerOperands = 3;

// Element i of the result, counted row-major in `dims`, is made of those of the operands that lie at the sums of
// coordinate * stride.
struct IntegerParameters {
  const void* x[kIntegerOperands] = {};
  void* y = nullptr;
  int32_t axes = 0;
  Divisor dims[kMaxAxes];
  int64_t strides[kIntegerOperands][kMaxAxes] = {};
  FaultRecord* faults = nullptr;
  int32_t fault_site = -1;
  int32_t items = 0;
};

// Result i is the reduction over j < count of x[PlaceOf(kept, i) + PlaceOf(reduced, j)].
struct IntegerReduceParameters {
  const void* x = nullptr;
  void* y = nullptr;  // or the parts: [part][result]
  Axes kept, reduced;
  int32_t results = 0, count = 0, parts = 1;
  int32_t part_count = 0;  // elements of each part but the last
  int64_t divisor = 0;     // of a mean; 0: of none
  bool of_flags = false;   // the result is 0 or 1
};

}  // namespace act::cuda
