// A group's range, and the bits with which its elements are rounded: kernels/math/rounding.h in
// vectors. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_ROUNDING_INL_H_
#undef ACT_ROUNDING_INL_H_
#else
#define ACT_ROUNDING_INL_H_
#endif

#include "kernels/cpu/bit_planes-inl.h"
#include "kernels/math/level_scale.h"
#include "kernels/math/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// The range from the lanes' extremes. `bad` is 0, or NaN if an element is infinite or NaN. If
// lowest is above highest, there were no elements.
HWY_INLINE GroupRange RangeOfLanes(V lowest, V highest, V bad) {
  const D d;
  float low = hn::GetLane(hn::MinOfLanes(d, lowest)), high = hn::GetLane(hn::MaxOfLanes(d, highest));
  if (low > high) low = high = 0;
  const bool finite = hn::AllFalse(d, hn::IsNaN(bad));
  const uint32_t largest_bits = std::max(BitsOf(low) & 0x7FFFFFFFu, BitsOf(high) & 0x7FFFFFFFu);
  return {low, high, finite ? largest_bits : kTooLargeBits};
}

// The range of all elements, or with kSkipZeros of the nonzero ones. 0 and 0 if there are none.
template <bool kSkipZeros>
GroupRange RangeOfGroup(const float* x, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  constexpr float kMost = 3.4028234663852886e38f;
  const V first = hn::Set(d, x[0]);
  // Two accumulators of each kind hide the latency of the operations.
  V lowest[2], highest[2], bad[2];
  for (int i = 0; i < 2; ++i) {
    lowest[i] = kSkipZeros ? hn::Set(d, kMost) : first;
    highest[i] = kSkipZeros ? hn::Set(d, -kMost) : first;
    bad[i] = hn::Zero(d);
  }
  const auto take = [&](V v, size_t slot) HWY_ATTR {
    bad[slot] = hn::MulAdd(v, hn::Zero(d), bad[slot]);
    if constexpr (kSkipZeros) {
      const Mask nonzero = hn::Ne(v, hn::Zero(d));
      lowest[slot] = hn::IfThenElse(nonzero, hn::Min(lowest[slot], v), lowest[slot]);
      highest[slot] = hn::IfThenElse(nonzero, hn::Max(highest[slot], v), highest[slot]);
    } else {
      lowest[slot] = hn::Min(lowest[slot], v);
      highest[slot] = hn::Max(highest[slot], v);
    }
  };
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    take(hn::LoadU(d, x + i), 0);
    take(hn::LoadU(d, x + i + lanes), 1);
  }
  for (; i < count; i += lanes) {
    const Mask rest = hn::FirstN(d, count - i);
    take(hn::IfThenElse(rest, hn::MaskedLoad(rest, d, x + i), first), 0);
  }
  return RangeOfLanes(hn::Min(lowest[0], lowest[1]), hn::Max(highest[0], highest[1]),
                      hn::Add(bad[0], bad[1]));
}

// Also finds the elements nearest to 0 on each side, in one pass, with two accumulators as above.
inline GroupRange RangeOfSides(const float* x, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  constexpr float kMost = 3.4028234663852886e38f;
  const V first = hn::Set(d, x[0]), zero = hn::Zero(d);
  V lowest[2], highest[2], bad[2], least_above[2], most_below[2];
  for (int i = 0; i < 2; ++i) {
    lowest[i] = highest[i] = first;
    bad[i] = zero;
    least_above[i] = hn::Set(d, kMost);
    most_below[i] = hn::Set(d, -kMost);
  }
  const auto take = [&](V v, size_t slot) HWY_ATTR {
    const Mask above = hn::Gt(v, zero);
    bad[slot] = hn::MulAdd(v, zero, bad[slot]);
    lowest[slot] = hn::Min(lowest[slot], v);
    highest[slot] = hn::Max(highest[slot], v);
    least_above[slot] = hn::IfThenElse(above, hn::Min(least_above[slot], v), least_above[slot]);
    most_below[slot] = hn::IfThenElse(above, most_below[slot], hn::Max(most_below[slot], v));
  };
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    take(hn::LoadU(d, x + i), 0);
    take(hn::LoadU(d, x + i + lanes), 1);
  }
  for (; i < count; i += lanes) {  // the last vector is filled with the first element again
    const Mask rest = hn::FirstN(d, count - i);
    take(hn::IfThenElse(rest, hn::MaskedLoad(rest, d, x + i), first), 0);
  }
  GroupRange range =
      RangeOfLanes(hn::Min(lowest[0], lowest[1]), hn::Max(highest[0], highest[1]), hn::Add(bad[0], bad[1]));
  range.least_above = hn::GetLane(hn::MinOfLanes(d, hn::Min(least_above[0], least_above[1])));
  range.most_below = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most_below[0], most_below[1])));
  return range;
}

// For kZero, the range of the nonzero elements.
inline GroupRange RangeOf(const Codec& codec, const float* x, size_t count) {
  if (codec.metadata == Metadata::kSides) return RangeOfSides(x, count);
  return codec.kind == CodecKind::kZero ? RangeOfGroup<true>(x, count) : RangeOfGroup<false>(x, count);
}

// Rounds to the nearest integer, for |v| < 2^31. Highway's own function would also correct values
// that are out of range.
HWY_INLINE VI ToNearest(V v) {
#if HWY_TARGET == HWY_AVX3  // with the plain form, GCC 12 warns of an undefined operand
  return VI{_mm512_maskz_cvtps_epi32(0xFFFF, v.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}

// ---- Rounding a group's elements, a vector at a time and in order

// The 16 bits for rounding, from the start of the group's dither sequence and from independent
// words. `words` are those of the group's first run, followed by those of later runs (Random16).
struct StochasticBits {
  HWY_INLINE StochasticBits(uint32_t, const uint32_t* w) : words(w) {}
  HWY_INLINE VU Next() {
    const DU du;
    const VU word = hn::LoadU(du, words + i / kRun * 16 + i % kRandomLanes);
    const size_t part = i % kRun / kRandomLanes;
    i += hn::Lanes(du);
    switch (part) {
      case 0:
        return hn::And(word, hn::Set(du, 0xFFFFu));
      case 1:
        return hn::And(hn::ShiftRight<8>(word), hn::Set(du, 0xFFFFu));
      case 2:
        return hn::ShiftRight<16>(word);
      default:
        return hn::And(hn::RotateRight<24>(word), hn::Set(du, 0xFFFFu));
    }
  }
  const uint32_t* words;
  size_t i = 0;
};
struct DitherSequence {
  HWY_INLINE DitherSequence(uint32_t start, const uint32_t*)
      : w(hn::Add(hn::Mul(hn::Iota(DU(), 0), hn::Set(DU(), kWeylStep)), hn::Set(DU(), start))),
        step(hn::Set(DU(), static_cast<uint32_t>(hn::Lanes(DU())) * kWeylStep)) {}
  HWY_INLINE VU Next() {
    const DU du;
    const VU bits = hn::OrAnd(hn::Set(du, 0x100u), w, hn::Set(du, 0xFE00u));
    w = hn::Add(w, step);
    return bits;
  }
  VU w, step;
};
struct NearestBits {
  HWY_INLINE NearestBits(uint32_t, const uint32_t*) {}
  HWY_INLINE VU Next() { return hn::Set(DU(), kNearestBits); }
};
// What decode adds, 256 (1/2 - u) in 16 bits, for the elements in order. It is 127 - 2 floor(w / 512), where
// w is the lower half of the dither sequence. With t = 0x7FFF - w, which is negative where w is 2^15 or more,
// it is t >> 8 with the lowest bit set.
struct DitherOffsets {
  explicit HWY_INLINE DitherOffsets(uint32_t start)
      : turned(hn::Sub(hn::Set(DW(), uint16_t{0x7FFF}),
                       hn::Add(hn::Mul(hn::Iota(DW(), 0), hn::Set(DW(), uint16_t{kWeylStep})),
                               hn::Set(DW(), static_cast<uint16_t>(start))))),
        step(hn::Set(DW(), static_cast<uint16_t>(hn::Lanes(DW()) * kWeylStep))) {}
  HWY_INLINE VW Next() {
    const hn::RebindToSigned<DW> d;
    const VW shifted = hn::BitCast(DW(), hn::ShiftRight<8>(hn::BitCast(d, turned)));
    turned = hn::Sub(turned, step);
    return hn::Or(shifted, hn::Set(DW(), uint16_t{1}));
  }
  VW turned, step;
};
// For roundings after which decode subtracts nothing.
struct NoOffsets {
  explicit HWY_INLINE NoOffsets(uint32_t) {}
  HWY_INLINE VW Next() { return hn::Zero(DW()); }
};

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_ROUNDING_INL_H_
