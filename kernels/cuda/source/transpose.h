// Two axes change places, by tiles in shared memory: a block reads rows that are contiguous in x, and writes
// rows that are contiguous in y.
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/elements.h"
#include "kernels/cuda/source/transpose_parameters.h"

namespace act::cuda {

// T: any type of the elements' size. To: what they become; float32 is rounded to bfloat16.
template <class T, class To = T>
ACT_DEVICE void Transpose(const TransposeParameters& p) {
  // Rows of a tile have one element more than they need, so that a column spreads over the banks of the
  // memory.
  ACT_SHARED(T, tile, (1 << kLogTile) + (1 << (kLogTile - 1)));
  auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t b0 = Split(p.tiles_b, block) << p.log_b, a0 = Split(p.tiles_a, block) << p.log_a;
  const Places at = PlacesOf(p.outer, block);
  const T* from = static_cast<const T*>(p.from) + at.from + a0 + b0 * p.from_stride_b;
  To* to = static_cast<To*>(p.to) + at.to + a0 * p.to_stride_a + b0;
  const int32_t count = 1 << (p.log_a + p.log_b), row = (1 << p.log_a) + 1;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t a = i & (row - 2), b = i >> p.log_a;
    if (a0 + a < p.a && b0 + b < p.b) tile[b * row + a] = Load(from + a + b * p.from_stride_b);
  }
  SyncThreads();
  for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t b = i & ((1 << p.log_b) - 1), a = i >> p.log_b;
    if (a0 + a >= p.a || b0 + b >= p.b) continue;
    if constexpr (std::is_same_v<T, To>)
      Store(to + a * p.to_stride_a + b, tile[b * row + a]);
    else
      StoreFloat(to + a * p.to_stride_a + b, tile[b * row + a]);
  }
}

}  // namespace act::cuda
