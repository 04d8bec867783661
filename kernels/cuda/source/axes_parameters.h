// The axes over which two strided tensors are walked together, for the host and the device.
#pragma once

#include "kernels/cuda/source/divisor.h"

namespace act::cuda {

// After neighbouring axes have been merged, no model comes near it.
inline constexpr int kMaxAxes = 8;

// Element i, counted row-major in `dims`, lies at these sums of coordinate * stride.
struct Axes {
  int32_t count = 0;
  Divisor dims[kMaxAxes];
  int64_t from[kMaxAxes] = {}, to[kMaxAxes] = {};
};

}  // namespace act::cuda
