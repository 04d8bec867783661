// The second stage of a sum over leading axes: a thread for each column.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/cuda/source/fused_parameters.h"

ACT_KERNEL(fused_sum, 256, act::FinishSum, p) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= p.columns) return;
  double sum = 0;
#pragma unroll 8
  for (int64_t part = 0; part < p.parts; ++part) sum += Load(p.partial + part * p.columns + column);
  Store(p.to + column, static_cast<float>(sum));
}
