// The parameters of the kernels in transpose.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/axes_parameters.h"

namespace act::cuda {

// A tile has 2^log_a by 2^log_b elements. Where one of the axes is short, the tile is long along the other.
inline constexpr int32_t kLogTile = 10;

struct TransposeParameters {
  Axes outer;  // all axes but two
  const void* from = nullptr;
  void* to = nullptr;
  int32_t a = 1, b = 1;  // extents: axis a is contiguous in `from`, axis b in `to`
  int32_t log_a = 5, log_b = 5;
  Divisor tiles_a, tiles_b;
  int64_t from_stride_b = 1, to_stride_a = 1;
};

}  // namespace act::cuda
