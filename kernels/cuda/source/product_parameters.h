// The parameters of the kernels in product.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/cuda/source/tile_product_parameters.h"

namespace act::cuda {

struct ProductParameters {
  Axes batch;  // from: a, to: b
  const void *a = nullptr, *b = nullptr;
  const float* bias = nullptr;
  void* y = nullptr;
  int32_t goes_on = 0;  // from what y holds, in float32
  int32_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0;  // strides
  Divisor tiles_m, tiles_n;
};

}  // namespace act::cuda
