// The second stage of a sum: parts, each made by a block in an order of its own, are added in their order.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/cuda/source/sum_parts_parameters.h"

namespace act::cuda {

ACT_DEVICE void SumParts(const SumPartsParameters& p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.elements) return;
  double sum = 0;
  for (int32_t part = 0; part < p.count; ++part) sum += Load(p.parts + part * p.elements + i);
  Store(p.to + i, static_cast<float>(sum));
}

}  // namespace act::cuda
