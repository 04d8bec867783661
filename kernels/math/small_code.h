// CodecKind::kMask and CodecKind::kIndex: the code of one element.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace act {

// 1 if x > 0. NaN gives 0.
ACT_HOST_DEVICE inline uint32_t EncodeMask(float x) { return x > 0 ? 1 : 0; }

// x should be an unsigned integer below 2^bits. Anything else saturates, and NaN gives 0.
ACT_HOST_DEVICE inline uint32_t EncodeIndex(float x, int bits) {
  const float largest = static_cast<float>((1 << bits) - 1);
  const float clamped = x > 0 ? (x < largest ? x : largest) : 0;
  return static_cast<uint32_t>(clamped);
}

}  // namespace act
