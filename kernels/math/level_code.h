// Codes with levels at equal steps (CodecKind::kUniform, kSign, kZero): the arithmetic of one group. Every
// backend makes the same codes from the same floats: nothing here changes under fused multiply-add
// contraction, and rounding is to nearest even. K: the number of levels.
//
// kUniform
//   minimum m = bf16 at or below min(x)            scale s = bf16 at or above (max(x) - m) / (K - 1)
//   q = floor((x - m) / s + u), u in [0, 1)        decoded = m + (q + offset) s, one rounding; u, offset:
//   rounding.h
// kZero: code 0 is x = 0; x != 0 has 1 + the code of kUniform with K - 1 levels and the range of what is not
// 0. kSign, P levels above 0, N = K - P at or below it
//   scales s+ = bf16 at or above max(x, 0) / (P - 1)    s- = bf16 at or above max(-x, 0) / (N - 1)
//   x > 0: q = floor(x / s+ + u)                        x <= 0: q = P + floor(-x / s- + u)
//   decoded (q + offset) s+ or -(q - P + offset) s-: on either side of 0, while the code's side stays that of
//   x.
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

// kSign: a scale for each side.
struct SignScale {
  uint16_t above_bf16 = 0, below_bf16 = 0;  // as stored
  float above = 0, below = 0;               // the same, widened
  float above_steps = 0, below_steps = 0;   // 2^16 / scale
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

// The bf16 scale of `levels` levels over this range.
ACT_HOST_DEVICE inline uint16_t StepOver(float range, int levels) {
  // 2^-20 of headroom holds the four roundings between here and QuantizeUniform (2^-24 each) below the top
  // level.
  const float inverse_levels = (1.0f + 0x1p-20f) / static_cast<float>(levels - 1);
  const float scale = range * inverse_levels;
  return BFloat16Above(scale > kUniformLeastScale ? scale : kUniformLeastScale);
}

// lowest, highest: of the group. largest_bits: the largest BitsOf(|x|) of the group, which is how NaN and Inf
// show.
ACT_HOST_DEVICE inline UniformScale MakeUniformScale(float lowest, float highest, uint32_t largest_bits,
                                                     int levels) {
  if (largest_bits >= kUniformTooLargeBits)
    return LoadUniformScale(kBFloat16NaN, BFloat16Above(kUniformLeastScale));
  const uint16_t minimum =
      BFloat16Below(lowest + 0.0f);  // -0 becomes 0: which of the two is the minimum is chance
  const float range = highest - FloatFromBFloat16(minimum);
  return LoadUniformScale(minimum, StepOver(range, levels));
}

ACT_HOST_DEVICE inline bool IsFinite(const UniformScale& s) { return s.minimum_bf16 != kBFloat16NaN; }

ACT_HOST_DEVICE inline SignScale LoadSignScale(uint16_t above_bf16, uint16_t below_bf16) {
  SignScale s;
  s.above_bf16 = above_bf16;
  s.below_bf16 = below_bf16;
  s.above = FloatFromBFloat16(above_bf16);
  s.below = FloatFromBFloat16(below_bf16);
  s.above_steps = 65536.0f / s.above;
  s.below_steps = 65536.0f / s.below;
  return s;
}

ACT_HOST_DEVICE inline SignScale MakeSignScale(float lowest, float highest, uint32_t largest_bits,
                                               int levels_above, int levels_below) {
  if (largest_bits >= kUniformTooLargeBits) return LoadSignScale(kBFloat16NaN, kBFloat16NaN);
  return LoadSignScale(StepOver(highest > 0 ? highest : 0, levels_above),
                       StepOver(lowest < 0 ? -lowest : 0, levels_below));
}

ACT_HOST_DEVICE inline bool IsFinite(const SignScale& s) { return s.above_bf16 != kBFloat16NaN; }

// Level of a position >= 0, in 2^-16 of a level, and 16 bits to round it with.
ACT_HOST_DEVICE inline uint32_t LevelOf(float position, uint32_t u16) {
#ifdef __CUDA_ARCH__
  const int32_t rounded = __float2int_rn(position);
#else
  const int32_t rounded = static_cast<int32_t>(std::nearbyint(position));
#endif
  return (static_cast<uint32_t>(rounded) + u16) >> 16;
}

// x's code. The scale must be finite (else the code is 0).
ACT_HOST_DEVICE inline uint32_t QuantizeUniform(float x, const UniformScale& s, uint32_t u16) {
  return LevelOf((x - s.minimum) * s.steps, u16);
}
ACT_HOST_DEVICE inline uint32_t QuantizeZero(float x, const UniformScale& s, uint32_t u16) {
  return x == 0 ? 0 : 1 + QuantizeUniform(x, s, u16);
}
ACT_HOST_DEVICE inline uint32_t QuantizeSign(float x, const SignScale& s, int levels_above, uint32_t u16) {
  if (x > 0) return LevelOf(x * s.above_steps, u16);
  return static_cast<uint32_t>(levels_above) + LevelOf(-x * s.below_steps, u16);
}

// offset: of the rounding, in 1/256 of a level. The scale has 8 significant bits and the position at most 16,
// so the product is exact.
ACT_HOST_DEVICE inline float DequantizeUniform(uint32_t q, const UniformScale& s, int32_t offset) {
  return s.minimum + static_cast<float>(static_cast<int32_t>(256 * q) + offset) * (s.scale * 0x1p-8f);
}
ACT_HOST_DEVICE inline float DequantizeZero(uint32_t q, const UniformScale& s, int32_t offset) {
  return q == 0 ? s.minimum - s.minimum : DequantizeUniform(q - 1, s, offset);  // NaN in a group that is NaN
}
ACT_HOST_DEVICE inline float DequantizeSign(uint32_t q, const SignScale& s, int levels_above,
                                            int32_t offset) {
  const auto above = static_cast<uint32_t>(levels_above);
  if (q < above) return static_cast<float>(static_cast<int32_t>(256 * q) + offset) * (s.above * 0x1p-8f);
  return static_cast<float>(static_cast<int32_t>(256 * (q - above)) + offset) * (s.below * -0x1p-8f);
}

}  // namespace act
