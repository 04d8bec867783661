// CodecKind::kUniform: the arithmetic of one group. Every backend makes the same codes from the same floats:
// nothing here changes under fused multiply-add contraction, and rounding is to nearest even.
//
//   minimum m = bf16 at or below min(x)            scale s = bf16 at or above (max(x) - m) / (2^bits - 1)
//   q = floor((x - m) / s + u), u in [0, 1)        decoded = m + q s, one rounding
//
// E[q] = (x - m) / s at every x of the group, its ends included: m and s are rounded outwards, so q cannot
// pass its range and nothing is clamped. (x - m) / s is kept to 2^-16, which bounds the bias by 2^-17 of a
// level.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/bfloat16.h"

namespace act {

// A group with a NaN, or a magnitude of 2^126 or more (its range could overflow), decodes to NaN throughout:
// seen, not hidden.
inline constexpr uint32_t kUniformTooLargeBits = 0x7E800000u;  // 2^126
// Ranges below this times the number of levels (and constant groups that bf16 holds exactly) use this scale:
// its inverse is finite, and what it rounds away is far below any value that matters.
inline constexpr float kUniformLeastScale = 0x1p-100f;
inline constexpr uint16_t kBFloat16NaN = 0x7FC0;

struct UniformScale {
  uint16_t minimum_bf16 = 0, scale_bf16 = 0;  // as stored
  float minimum = 0, scale = 0;               // the same, widened
  float steps = 0;                            // 2^16 / scale: (x - minimum) steps counts 2^-16 of a level
};

// The stored pair, widened: what decode starts from.
ACT_HOST_DEVICE inline UniformScale LoadUniformScale(uint16_t minimum_bf16, uint16_t scale_bf16) {
  UniformScale s;
  s.minimum_bf16 = minimum_bf16;
  s.scale_bf16 = scale_bf16;
  s.minimum = FloatFromBFloat16(minimum_bf16);
  s.scale = FloatFromBFloat16(scale_bf16);
  s.steps = 65536.0f / s.scale;
  return s;
}

// lowest, highest: of the group. largest_bits: the largest BitsOf(|x|) of the group, which is how NaN and Inf
// show.
ACT_HOST_DEVICE inline UniformScale MakeUniformScale(float lowest, float highest, uint32_t largest_bits,
                                                     int bits) {
  if (largest_bits >= kUniformTooLargeBits)
    return LoadUniformScale(kBFloat16NaN, BFloat16Above(kUniformLeastScale));
  const uint16_t minimum =
      BFloat16Below(lowest + 0.0f);  // -0 becomes 0: which of the two is the minimum is chance
  const float range = highest - FloatFromBFloat16(minimum);
  // 2^-20 of headroom holds the four roundings between here and QuantizeUniform (2^-24 each) below the top
  // level.
  const float inverse_levels = (1.0f + 0x1p-20f) / static_cast<float>((1 << bits) - 1);
  const float scale = range * inverse_levels;
  return LoadUniformScale(minimum, BFloat16Above(scale > kUniformLeastScale ? scale : kUniformLeastScale));
}

ACT_HOST_DEVICE inline bool IsFinite(const UniformScale& s) { return s.minimum_bf16 != kBFloat16NaN; }

// x's code. u16: 16 uniform bits. The scale must be finite (else the code is 0).
ACT_HOST_DEVICE inline uint32_t QuantizeUniform(float x, const UniformScale& s, uint32_t u16) {
  const float steps = (x - s.minimum) * s.steps;
#ifdef __CUDA_ARCH__
  const int32_t rounded = __float2int_rn(steps);
#else
  const int32_t rounded = static_cast<int32_t>(std::nearbyint(steps));
#endif
  return (static_cast<uint32_t>(rounded) + u16) >> 16;
}

// scale has 8 significant bits and q at most 8, so the product is exact.
ACT_HOST_DEVICE inline float DequantizeUniform(uint32_t q, const UniformScale& s) {
  return s.minimum + static_cast<float>(q) * s.scale;
}

}  // namespace act
