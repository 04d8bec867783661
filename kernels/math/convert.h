// Conversions between float32 and the element types that fused loops read and write.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/math/bfloat16.h"
#include "kernels/math/host_device.h"

namespace act {

struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

template <class T>
ACT_HOST_DEVICE float ToFloat(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return FloatFromBFloat16(x.bits);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return x.byte != 0 ? 1.0f : 0.0f;
  } else {
    return static_cast<float>(x);
  }
}

// Integers round toward zero and saturate; NaN gives 0. Bool: x != 0. bf16: to nearest even.
template <class T>
ACT_HOST_DEVICE T FromFloat(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (x != x) return {0x7FC0};
    const uint32_t bits = BitsOf(x);
    return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(x != 0 ? 1 : 0)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(x);
  } else {
    if (x != x) return 0;
    // 2^digits: the first float above T's range.
    constexpr float kAbove = static_cast<float>(uint64_t{1} << (std::numeric_limits<T>::digits - 1)) * 2.0f;
    // numeric_limits' functions are avoided, since device code may not call host functions.
    constexpr T kMost = static_cast<T>(~uint64_t{0} >> (64 - std::numeric_limits<T>::digits));
    constexpr T kLeast = static_cast<T>(std::is_signed_v<T> ? -kMost - 1 : 0);
    if (x >= kAbove) return kMost;
    if (x < static_cast<float>(kLeast)) return kLeast;
    return static_cast<T>(x);
  }
}

}  // namespace act
