// bfloat16 (the upper half of a float32) with directed rounding, because codec metadata must cover
// the range that it describes.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/math/host_device.h"

namespace act {

ACT_HOST_DEVICE inline uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

ACT_HOST_DEVICE inline float FloatOf(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

ACT_HOST_DEVICE inline float FloatFromBFloat16(uint16_t bits) { return FloatOf(uint32_t{bits} << 16); }

// The largest bfloat16 <= x, for finite x. -inf if no finite one exists.
ACT_HOST_DEVICE inline uint16_t BFloat16Below(float x) {
  const uint32_t bits = BitsOf(x);
  const bool negative = (bits >> 31) != 0;
  return static_cast<uint16_t>((negative ? bits + 0xFFFFu : bits) >> 16);
}

// The smallest bfloat16 >= x, for finite x >= 0. +inf if no finite one exists.
ACT_HOST_DEVICE inline uint16_t BFloat16Above(float x) {
  return static_cast<uint16_t>((BitsOf(x) + 0xFFFFu) >> 16);
}

}  // namespace act
