// What a team of threads computes together. A team is 1, 2, 4, .. 32 neighbouring lanes of a warp, or a
// whole block of 64 threads or more. The order of all operations follows from the size of the team.
#pragma once

#include "kernels/cuda/source/device.h"

namespace act::cuda {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A 64-bit value, exchanged as two of 32.
template <class T>
ACT_DEVICE T ShuffleXorWide(T value, int lane_mask) {
  if constexpr (sizeof(T) == 4) {
    return ShuffleXor(kAllLanes, value, lane_mask);
  } else {
    static_assert(sizeof(T) == 8);
    const auto bits = __builtin_bit_cast(uint64_t, value);
    const uint64_t low = ShuffleXor(kAllLanes, static_cast<uint32_t>(bits), lane_mask);
    const uint64_t high = ShuffleXor(kAllLanes, static_cast<uint32_t>(bits >> 32), lane_mask);
    return __builtin_bit_cast(T, high << 32 | low);
  }
}

// What `combine`, a commutative function, makes of the values of all threads of a team. All get it. Every
// thread of the block must take part.
template <int kTeam, class T, class Combine>
ACT_DEVICE T OverTeam(T value, Combine combine) {
  for (int m = 1; m < (kTeam < 32 ? kTeam : 32); m *= 2) value = combine(value, ShuffleXorWide(value, m));
  if constexpr (kTeam > 32) {
    constexpr int kWarps = kTeam / 32;
    ACT_SHARED(T, of_warp, kWarps);
    SyncThreads();  // an earlier call may still be read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    SyncThreads();
    value = of_warp[0];
    for (int w = 1; w < kWarps; ++w) value = combine(value, of_warp[w]);
  }
  return value;
}

template <int kTeam, class T>
ACT_DEVICE T SumOverTeam(T value) {
  return OverTeam<kTeam>(value, [](T a, T b) { return a + b; });
}

}  // namespace act::cuda
