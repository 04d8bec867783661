// The second stage of a sum: parts, each made by a block in an order of its own, are added in their order.
#pragma once

#include <cstdint>

namespace act::cuda {

struct SumPartsParameters {
  const float* parts = nullptr;  // [count, elements]
  float* to = nullptr;
  int64_t elements = 0;
  int32_t count = 0;
};

#ifdef ACT_KERNEL

ACT_DEVICE void SumParts(const SumPartsParameters& p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.elements) return;
  double sum = 0;
  for (int32_t part = 0; part < p.count; ++part) sum += Load(p.parts + part * p.elements + i);
  Store(p.to + i, static_cast<float>(sum));
}

#endif  // ACT_KERNEL

}  // namespace act::cuda
