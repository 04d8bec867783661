// What an axis shows beyond its ends.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace act {

enum class PadMode : int32_t { kConstant, kEdge, kReflect };

// The coordinate of an axis of extent n that position i shows, where positions outside 0..n-1 are padding.
// -1: the pad value. Reflection does not repeat the element at the end: a pad of 2 before 0 1 2 shows 2 1 0 1
// 2.
ACT_HOST_DEVICE inline int64_t PadSource(int64_t i, int64_t n, PadMode mode) {
  if (i >= 0 && i < n) return i;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge) return i < 0 ? 0 : n - 1;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1);
  i = ((i % period) + period) % period;
  return i < n ? i : period - i;
}

}  // namespace act
