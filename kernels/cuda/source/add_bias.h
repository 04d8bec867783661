// Adds a bias [channels] to each pixel.
#pragma once

#include "kernels/cuda/source/divisor.h"
#include "kernels/cuda/source/floats.h"

namespace act::cuda {

struct AddBiasParameters {
  float* y = nullptr;
  const float* bias = nullptr;
  Divisor groups;  // of kCount channels
  int32_t items = 0;
};

#ifdef ACT_KERNEL

template <int kCount>
ACT_DEVICE void AddBias(const AddBiasParameters& p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto pixel = static_cast<int32_t>(thread);
  Floats<kCount> y, bias;
  LoadFloats(p.y + thread * kCount, y);
  LoadFloats(p.bias + Split(p.groups, pixel) * kCount, bias);
  for (int j = 0; j < kCount; ++j) y.at[j] += bias.at[j];
  StoreFloats(p.y + thread * kCount, y);
}

#endif  // ACT_KERNEL

}  // namespace act::cuda
