// The parameters of the kernels in conv.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/tile_product_parameters.h"
#include "kernels/cuda/source/window_parameters.h"

namespace act::cuda {

struct ConvParameters {
  WindowParameters window;
  const void *x = nullptr, *y = nullptr;  // y: of the gradients, dy
  const float *w = nullptr, *bias = nullptr;
  void* to = nullptr;
  int32_t pixels = 0;                      // of all samples: of y, or where dx is made, of x
  int32_t channels = 0, out_channels = 0;  // C, M
  Divisor group_in, group_out;             // C/group, M/group
  int32_t taps = 1;
  Divisor tiles_rows, tiles_columns, groups;
  int32_t part_length = 0;    // of the weight gradient: pixels that a part sums
  int64_t part_elements = 0;  // of a weight gradient
};

}  // namespace act::cuda
