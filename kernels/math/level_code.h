// Codes with levels (CodecKind::kUniform, kSign, kZero): the arithmetic of one element. Every
// backend makes the same codes from the same floats: fused multiply-add contraction changes nothing
// here, and rounding is to nearest even.
//
// K is the number of levels. s is the group's scale and m its lowest level (level_scale.h). u and
// offset are explained in rounding.h.
//
//   kUniform   code:     q = floor((x - m) / s + u), with u in [0, 1)
//              decoded:  m + (q + offset) s, with one rounding
//   kZero      code 0 is x = 0. For x != 0 the code is 1 + that of kUniform with K - 1 levels over
//              the range of the nonzero elements.
//   kSign      P levels above 0 with scale s+, and N = K - P at or below 0 with scale s-
//              code:     x > 0: q = floor(x / s+ + u)      x <= 0: q = P + floor(-x / s- + u)
//              decoded:  (q + offset) s+ or -(q - P + offset) s-. This may lie on the other side of
//                        0, but the code's side stays that of x. If the metadata has the least
//                        magnitude of each side, levels start there instead of at 0.
//   fitted     first converts the position (x - m) / s to one between unequal levels
//              (fitted_levels.h)
//
// E[q] = (x - m) / s at every x of the group, its ends included. m and s are rounded outwards, so q
// cannot leave its range and nothing is clamped. (x - m) / s is kept to 2^-16, which bounds the
// bias by 2^-17 of a level.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/fitted_levels.h"
#include "kernels/math/level_scale.h"

namespace act {

// A position of 0 or more between levels, in 2^-16 of a level. `inverse` is 2^16 / scale.
ACT_HOST_DEVICE inline uint32_t PositionOf(float distance, float inverse) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__float2int_rn(distance * inverse));
#else
  return static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(distance * inverse)));
#endif
}
ACT_HOST_DEVICE inline float InverseOf(float scale) { return 65536.0f / scale; }

// Rounds a position to the level above or below it, with 16 bits. `fitted` is null if levels are
// even.
ACT_HOST_DEVICE inline uint32_t LevelOf(uint32_t position, const FittedLevels* fitted, uint32_t u16) {
  return ((fitted ? FittedPosition(position, *fitted) : position) + u16) >> 16;
}

// The code of x. If the scale is not finite, the code is 0. `fitted`: the levels over the range;
// for kSign, those above and below 0.
ACT_HOST_DEVICE inline uint32_t QuantizeLevel(const CodecSpec& codec, float x, const GroupScale& s,
                                              const FittedPair& fitted, uint32_t u16) {
  if (codec.kind == CodecKind::kSign) {
    if (x > 0) return LevelOf(PositionOf(x - s.minimum, InverseOf(s.scale)), fitted.above, u16);
    return static_cast<uint32_t>(codec.LevelsAbove()) +
           LevelOf(PositionOf(-x - s.minimum_below, InverseOf(s.below)), fitted.below, u16);
  }
  if (codec.kind == CodecKind::kZero && x == 0) return 0;
  const uint32_t level = LevelOf(PositionOf(x - s.minimum, InverseOf(s.scale)), fitted.above, u16);
  return codec.kind == CodecKind::kZero ? 1 + level : level;
}

// Level q plus the rounding's offset (1/256 of a level), times the scale. The scale has 8
// significant bits and the position at most 16, so their products are exact.
ACT_HOST_DEVICE inline float StepsOf(uint32_t q, const FittedLevels* fitted, int32_t offset, float scale) {
  if (fitted) return static_cast<float>(FittedValue(q, *fitted, offset)) * (scale * kFittedUnit);
  return static_cast<float>(static_cast<int32_t>(256 * q) + offset) * (scale * 0x1p-8f);
}

ACT_HOST_DEVICE inline float DequantizeLevel(const CodecSpec& codec, uint32_t q, const GroupScale& s,
                                             const FittedPair& fitted, int32_t offset) {
  if (codec.kind == CodecKind::kSign) {
    const auto above = static_cast<uint32_t>(codec.LevelsAbove());
    return q < above ? s.minimum + StepsOf(q, fitted.above, offset, s.scale)
                     : StepsOf(q - above, fitted.below, offset, -s.below) - s.minimum_below;
  }
  if (codec.kind == CodecKind::kZero) {
    if (q == 0) return s.minimum - s.minimum;  // NaN if the group is NaN
    --q;
  }
  return s.minimum + StepsOf(q, fitted.above, offset, s.scale);
}

}  // namespace act
