// Copies between strided tensors, in units of several elements where rows are contiguous on both sides.
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/strided_copy_parameters.h"

namespace act::cuda {

// Unit: any type of the units' size.
template <class Unit>
ACT_DEVICE void CopyStrided(const StridedCopyParameters& p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  const Places at = PlacesOf(p.axes, static_cast<int32_t>(i));
  Store(static_cast<Unit*>(p.to) + at.to, Load(static_cast<const Unit*>(p.from) + at.from));
}

}  // namespace act::cuda
