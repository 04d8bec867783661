#pragma once

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/math/step_block.h"

namespace act::cuda {

// y[i] = first + step i
struct RangeParameters {
  int64_t* y = nullptr;
  int64_t first = 0, step = 0;
  int32_t items = 0;
};

// Tuples of `length` numbers, and the extents of their axes.
struct FlatIndexParameters {
  const void* tuples = nullptr;
  int64_t* y = nullptr;
  int64_t extents[kMaxAxes] = {};
  int32_t length = 0, items = 0;
  FaultRecord* faults = nullptr;
  int32_t fault_sites[kMaxAxes] = {};  // of the axes
};

// Elements of x that one block of NonZero's kernels counts or places.
inline constexpr int kFoundThreads = 256, kFoundItems = 2048, kFoundScanThreads = 1024;
struct NonZeroParameters {
  const void* x = nullptr;
  int64_t* at = nullptr;  // [rank][count]
  uint8_t* live = nullptr;
  uint32_t* counts =
      nullptr;  // of the elements that are not 0: in each block, then before it; [blocks]: in all
  int32_t count = 0, blocks = 0;
  int32_t rank = 0;
  Divisor dims[kMaxAxes];
};

}  // namespace act::cuda
