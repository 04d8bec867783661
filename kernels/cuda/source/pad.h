// Padding, in units of several elements where the last axes are not padded.
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/pad_parameters.h"

namespace act::cuda {

template <class Unit>
ACT_DEVICE void Pad(const PadParameters& p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto rest = static_cast<int32_t>(thread);
  int64_t at = 0;
  bool inside = true;
  for (int32_t d = p.count - 1; d >= 0; --d) {
    const PadAxis& axis = p.axes[d];
    const int64_t source = PadSource(Split(axis.extent, rest) - axis.begin, axis.of_x, p.mode);
    inside = inside && source >= 0;
    at += source * axis.x_stride;
  }
  Store(static_cast<Unit*>(p.to) + thread,
        inside ? Load(static_cast<const Unit*>(p.from) + at) : *reinterpret_cast<const Unit*>(p.value));
}

}  // namespace act::cuda
