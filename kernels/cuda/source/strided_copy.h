// Copies between strided tensors, in units of several elements where rows are contiguous on both sides.
#pragma once

#include "kernels/cuda/source/axes.h"

namespace act::cuda {

struct StridedCopyParameters {
  Axes axes;  // in units
  const void* from = nullptr;
  void* to = nullptr;
  int32_t items = 0;
};

#ifdef ACT_KERNEL

// Unit: any type of the units' size.
template <class Unit>
ACT_DEVICE void CopyStrided(const StridedCopyParameters& p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  const Places at = PlacesOf(p.axes, static_cast<int32_t>(i));
  Store(static_cast<Unit*>(p.to) + at.to, Load(static_cast<const Unit*>(p.from) + at.from));
}

#endif  // ACT_KERNEL

}  // namespace act::cuda
