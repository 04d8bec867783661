// Adds a bias [channels] to each pixel, and writes the sums as elements of type To.
#pragma once

#include "kernels/cuda/source/add_bias_parameters.h"
#include "kernels/cuda/source/floats.h"

namespace act::cuda {

template <class To, int kCount>
ACT_DEVICE void AddBias(const AddBiasParameters& p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto pixel = static_cast<int32_t>(thread);
  Floats<kCount> y, bias;
  LoadFloats(static_cast<const float*>(p.from) + thread * kCount, y);
  LoadFloats(p.bias + Split(p.groups, pixel) * kCount, bias);
  for (int j = 0; j < kCount; ++j) y.at[j] += bias.at[j];
  StoreFloats(static_cast<To*>(p.to) + thread * kCount, y);
}

}  // namespace act::cuda
