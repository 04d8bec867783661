// The second stage of a sum: parts, each made by a block in an order of its own, are added in their order.
#pragma once

#include "kernels/cuda/source/elements.h"
#include "kernels/cuda/source/sum_parts_parameters.h"

namespace act::cuda {

// T: of the result.
template <class T>
ACT_DEVICE void SumParts(const SumPartsParameters& p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.elements) return;
  double sum = 0;
  for (int32_t part = 0; part < p.count; ++part) sum += Load(p.parts + part * p.elements + i);
  StoreFloat(static_cast<T*>(p.to) + i, static_cast<float>(sum));
}

}  // namespace act::cuda
