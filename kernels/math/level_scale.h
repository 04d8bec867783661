// What a group of a code with levels stores beside its codes: its scale, and where its levels start
// (codec_spec.h, Metadata). Encode stores both and then loads them, so that encode and decode
// compute from the same rounded numbers. Scales are rounded up and minima down, so no code exceeds
// the top level. Every scale has 8 significant bits, which keeps its products with positions exact.
//
// The 8-bit logarithm e of a scale:
//     0.. 31   2^(-9 - 3 (32 - e))          coarse: numbers far below 1 are coded unbiased,
//                                            with up to 8 times the step
//    32..223   2^((e - 32) / 16 - 9)        its mantissa rounded up to 7 bits: 2^-9 to 7.7,
//                                            within 4.4 % of any scale
//   224..254   2^(3 + 4 (e - 224))          coarse: up to 16 times the step
//   255        NaN
#pragma once

#include <cstdint>

#include "kernels/math/bfloat16.h"
#include "kernels/math/codec_spec.h"

namespace act {

// A group that has a NaN, or a magnitude of at least this (its range could overflow), decodes to
// NaN throughout. So the fault shows.
inline constexpr uint32_t kTooLargeBits = 0x7E800000u;     // 2^126
inline constexpr uint32_t kTooLargeLogBits = 0x7B800000u;  // 2^120, for 8-bit logarithms as scales
// The scale of ranges that are smaller than this times the number of levels, and of constant groups
// that bf16 holds exactly. Its inverse is finite, and what it rounds away is far below any value
// that matters.
inline constexpr float kLeastScale = 0x1p-100f;
inline constexpr uint16_t kBFloat16NaN = 0x7FC0;
inline constexpr uint8_t kLogNaN = 255;
inline constexpr uint16_t kBFloat16Sign = 0x8000;  // of a kSingle scale: levels on both sides of 0

// The smallest and the largest element of a group, and its largest BitsOf(|x|), which reveals NaN
// and infinity. For kZero these are those of the nonzero elements, and all 0 if there are none.
struct GroupRange {
  float lowest = 0, highest = 0;
  uint32_t largest_bits = 0;
  // kSides: the elements nearest to 0 among those above it, and among the others
  float least_above = 0, most_below = 0;
};

struct GroupScale {
  float minimum = 0;        // kUniform, kZero: the lowest level; kSign: the least magnitude above 0
  float scale = 0;          // the step; kSign: of the levels above 0
  float below = 0;          // kSign: the step of the others
  float minimum_below = 0;  // kSign: their least magnitude
};

ACT_HOST_DEVICE inline bool IsFinite(const GroupScale& s) { return s.scale == s.scale; }

// The mantissa of 2^(k / 16), rounded up, in 1/128. For k = 16, the mantissa of the next power.
ACT_HOST_DEVICE inline uint32_t LogMantissa(uint32_t k) {
  static constexpr uint8_t kMantissa[17] = {0, 6, 12, 18, 25, 31, 38, 46, 54, 62, 70, 79, 88, 97, 107, 118, 128};
  return kMantissa[k];
}

// The scale with logarithm e, as bf16.
ACT_HOST_DEVICE inline uint16_t BFloat16OfLog(uint8_t e) {
  const auto power = [](int exponent) { return static_cast<uint16_t>((exponent + 127) << 7); };
  if (e == kLogNaN) return kBFloat16NaN;
  if (e < 32) return power(-9 - 3 * (32 - e));
  if (e >= 224) return power(3 + 4 * (e - 224));
  const uint32_t k = e - 32u;
  return static_cast<uint16_t>(power(static_cast<int>(k / 16) - 9) + LogMantissa(k % 16));
}

// The least logarithm whose scale is at or above a bf16 number of 2^-100..2^123.
ACT_HOST_DEVICE inline uint8_t LogAbove(uint16_t bf16) {
  const int exponent = (bf16 >> 7) - 127;
  const uint32_t mantissa = bf16 & 127u;
  const int above = exponent + (mantissa != 0);  // 2^above is at or above the number
  if (above <= -9) return static_cast<uint8_t>(32 - (-9 - above) / 3);
  if (above > 3 || (exponent == 2 && mantissa > 118)) return static_cast<uint8_t>(224 + (above - 3 + 3) / 4);
  // log2(1 + f) is between f and f + .09. So the logarithm is here or up to three places further
  // on, which the loop finds without a branch.
  uint32_t k = mantissa / 8;
  for (int i = 0; i < 3; ++i) k += LogMantissa(k) < mantissa;
  return static_cast<uint8_t>(32 + 16 * (exponent + 9) + static_cast<int>(k));
}

// The bf16 scale for `levels` levels over this range.
ACT_HOST_DEVICE inline uint16_t StepOver(float range, int levels) {
  // 2^-20 of headroom covers the four roundings from here to the code (2^-24 each), so that the
  // code stays at or below the top level.
  const float inverse_levels = (1.0f + 0x1p-20f) / static_cast<float>(levels - 1);
  const float scale = range * inverse_levels;
  return BFloat16Above(scale > kLeastScale ? scale : kLeastScale);
}

namespace level_scale {

ACT_HOST_DEVICE inline uint8_t* Store(uint16_t bf16, uint8_t* to) {
  memcpy(to, &bf16, 2);
  return to + 2;
}
ACT_HOST_DEVICE inline uint8_t* StoreScale(bool log, uint16_t bf16, uint8_t* to) {
  if (!log) return Store(bf16, to);
  *to = bf16 == kBFloat16NaN ? kLogNaN : LogAbove(bf16);
  return to + 1;
}
ACT_HOST_DEVICE inline uint16_t Load(const uint8_t*& from) {
  uint16_t bf16;
  memcpy(&bf16, from, 2);
  from += 2;
  return bf16;
}
ACT_HOST_DEVICE inline uint16_t LoadScale(bool log, const uint8_t*& from) {
  return log ? BFloat16OfLog(*from++) : Load(from);
}

}  // namespace level_scale

// The scale that a group's metadata holds.
ACT_HOST_DEVICE inline GroupScale LoadGroupScale(const CodecSpec& codec, const uint8_t* metadata) {
  using namespace level_scale;
  const bool log = codec.HasLogScales(), single = codec.HasOneScale();
  GroupScale s;
  if (codec.metadata == Metadata::kSides) {
    s.minimum = FloatFromBFloat16(Load(metadata));
    s.scale = FloatFromBFloat16(Load(metadata));
    s.minimum_below = FloatFromBFloat16(Load(metadata));
    s.below = FloatFromBFloat16(Load(metadata));
    return s;
  }
  if (codec.kind == CodecKind::kSign) {
    s.scale = FloatFromBFloat16(LoadScale(log, metadata));
    s.below = single ? s.scale : FloatFromBFloat16(LoadScale(log, metadata));
    return s;
  }
  if (!single) {
    s.minimum = FloatFromBFloat16(Load(metadata));
    s.scale = FloatFromBFloat16(LoadScale(log, metadata));
    if (s.minimum != s.minimum) s.scale = s.minimum;
    return s;
  }
  const uint16_t stored = LoadScale(log, metadata);
  s.scale = FloatFromBFloat16(static_cast<uint16_t>(stored & ~kBFloat16Sign));
  // Exact: half of a whole number below 2^8, times 8 significant bits.
  const bool both_sides = log || (stored & kBFloat16Sign) != 0;
  s.minimum =
      both_sides ? -static_cast<float>(codec.LevelsOverRange() - 1) * (0.5f * s.scale) : 0.0f * s.scale;
  return s;
}

// Writes a group's metadata.
ACT_HOST_DEVICE inline void StoreGroupScale(const CodecSpec& codec, const GroupRange& range,
                                            uint8_t* metadata) {
  using namespace level_scale;
  const bool log = codec.HasLogScales(), single = codec.HasOneScale();
  const bool finite = range.largest_bits < (log ? kTooLargeLogBits : kTooLargeBits);
  const auto step = [finite](float over, int levels) {
    return finite ? StepOver(over, levels) : kBFloat16NaN;
  };
  if (codec.metadata == Metadata::kSides) {
    const auto side = [&](float least, float most, int levels) {
      const uint16_t minimum = finite && most > 0 ? BFloat16Below(least) : uint16_t{0};
      metadata = Store(minimum, metadata);
      metadata = Store(step(most > 0 ? most - FloatFromBFloat16(minimum) : 0, levels), metadata);
    };
    side(range.least_above, range.highest, codec.LevelsAbove());
    side(0.0f - range.most_below, -range.lowest, codec.below);
    return;
  }
  if (codec.kind == CodecKind::kSign) {
    const uint16_t above = step(range.highest > 0 ? range.highest : 0, codec.LevelsAbove());
    const uint16_t below = step(range.lowest < 0 ? -range.lowest : 0, codec.below);
    // Of two positive numbers or NaNs, the larger one has the larger bits.
    metadata = StoreScale(log, single && below > above ? below : above, metadata);
    if (!single) StoreScale(log, below, metadata);
    return;
  }
  const int levels = codec.LevelsOverRange();
  if (single) {
    const float most = range.highest > -range.lowest ? range.highest : -range.lowest;
    const bool both_sides = log || range.lowest < 0;
    const uint16_t scale = step(both_sides ? 2 * most : range.highest, levels);
    StoreScale(log, static_cast<uint16_t>(scale | (both_sides && !log && finite ? kBFloat16Sign : 0)),
               metadata);
    return;
  }
  // -0 becomes 0: which of the two was the minimum would depend on chance.
  const uint16_t minimum = finite ? BFloat16Below(range.lowest + 0.0f) : kBFloat16NaN;
  metadata = Store(minimum, metadata);
  StoreScale(
      log, finite ? StepOver(range.highest - FloatFromBFloat16(minimum), levels) : BFloat16Above(kLeastScale),
      metadata);
}

}  // namespace act
