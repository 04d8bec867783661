// Float32 to bfloat16, and back.
#pragma once

#include "kernels/cuda/source/conversion_parameters.h"
#include "kernels/cuda/source/floats.h"

namespace act::cuda {

template <class From, class To, int kCount>
ACT_DEVICE void Convert(const ConversionParameters& p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  Floats<kCount> x;
  LoadFloats(static_cast<const From*>(p.from) + i * kCount, x);
  StoreFloats(static_cast<To*>(p.to) + i * kCount, x);
}

}  // namespace act::cuda
