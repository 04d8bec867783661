// Sums over the threads of a block that come before a thread.
#pragma once

#include "kernels/cuda/source/team.h"

namespace act::cuda {

// The sum of the values of the threads before this one whose distance is a multiple of kStride, and in *all that of all
// such threads. Every thread of the block, which has kThreads, must take part. Floats are added in an order that
// follows from kThreads and kStride.
template <int kThreads, int kStride = 1, class T>
ACT_DEVICE T SumBefore(T value, T* all = nullptr) {
  ACT_SHARED(T, sums, kThreads);
  const int32_t t = threadIdx.x;
  SyncThreads();  // an earlier call may still be read
  sums[t] = value;
  SyncThreads();
  for (int32_t distance = kStride; distance < kThreads; distance *= 2) {
    const T before = t >= distance ? sums[t - distance] : T{0};
    SyncThreads();
    sums[t] += before;
    SyncThreads();
  }
  if (all) *all = sums[kThreads - kStride + t % kStride];
  return t >= kStride ? sums[t - kStride] : T{0};
}

}  // namespace act::cuda
