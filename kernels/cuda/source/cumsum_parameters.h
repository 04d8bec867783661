#pragma once

#include <cstdint>

namespace act::cuda {

inline constexpr int kCumSumThreads = 256;
// Neighbours on the axis that a thread adds up at a time. An axis that is not longer than kShortSum has one thread.
inline constexpr int kCumSumEach = 8, kShortSum = 64;

// x as [outer, extent, inner].
struct CumSumParameters {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t columns = 0;  // outer * inner
  int32_t extent = 0, inner = 0;
  int32_t tiles = 0;  // of inner, for blocks
  bool exclusive = false, reverse = false;
};

}  // namespace act::cuda
