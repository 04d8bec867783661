// Codes with levels (CodecKind::kUniform, kSign, kZero), a group at a time: kernels/math/level_code.h and
// rounding.h in vectors. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_LEVELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_LEVELS_INL_H_
#undef ACT_LEVELS_INL_H_
#else
#define ACT_LEVELS_INL_H_
#endif

#include "kernels/cpu/bit_planes-inl.h"
#include "kernels/cpu/random-inl.h"
#include "kernels/math/level_code.h"
#include "kernels/math/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// A group's metadata, read in whichever way its codec means it.
struct LevelScales {
  UniformScale uniform;
  SignScale sign;
};

struct GroupRange {
  float lowest, highest;
  uint32_t largest_bits;  // kUniformTooLargeBits where an element is infinite or NaN
};

// Over all elements, or (kSkipZeros) those that are not 0, or 0 and 0 where there are none.
template <bool kSkipZeros>
GroupRange RangeOf(const float* x, size_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  constexpr float kMost = 3.4028234663852886e38f;
  const V first = hn::Set(d, x[0]);
  // Two of each, to hide the latency of the operations. bad is 0, or NaN where an element is infinite or NaN.
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
  float low = hn::GetLane(hn::MinOfLanes(d, hn::Min(lowest[0], lowest[1])));
  float high = hn::GetLane(hn::MaxOfLanes(d, hn::Max(highest[0], highest[1])));
  if (kSkipZeros && low > high) low = high = 0;
  const bool finite = hn::AllFalse(d, hn::IsNaN(hn::Add(bad[0], bad[1])));
  const uint32_t largest_bits = std::max(BitsOf(low) & 0x7FFFFFFFu, BitsOf(high) & 0x7FFFFFFFu);
  return {low, high, finite ? largest_bits : kUniformTooLargeBits};
}

// Writes the group's metadata; false where it is not finite, so that its codes are 0.
bool MakeScales(const Codec& codec, const float* x, size_t count, LevelScales& scales, uint8_t* metadata) {
  const GroupRange r = codec.kind == CodecKind::kZero ? RangeOf<true>(x, count) : RangeOf<false>(x, count);
  uint16_t stored[2];
  bool finite;
  if (codec.kind == CodecKind::kSign) {
    scales.sign = MakeSignScale(r.lowest, r.highest, r.largest_bits, codec.levels - codec.below, codec.below);
    stored[0] = scales.sign.above_bf16;
    stored[1] = scales.sign.below_bf16;
    finite = IsFinite(scales.sign);
  } else {
    const int levels = codec.kind == CodecKind::kZero ? codec.levels - 1 : codec.levels;
    scales.uniform = MakeUniformScale(r.lowest, r.highest, r.largest_bits, levels);
    stored[0] = scales.uniform.minimum_bf16;
    stored[1] = scales.uniform.scale_bf16;
    finite = IsFinite(scales.uniform);
  }
  std::memcpy(metadata, stored, 4);
  return finite;
}

// To the nearest integer, for |v| < 2^31: without Highway's repair of what is out of range.
HWY_INLINE VI ToNearest(V v) {
#if HWY_TARGET == HWY_AVX3  // the plain form makes GCC 12 warn of the operand it leaves undefined
  return VI{_mm512_maskz_cvtps_epi32(0xFFFF, v.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}

// ---- Rounding: the 16 bits of elements i .. i + lanes - 1 of a group, i a multiple of the lanes

// Independent bits. words: those of the group's first run and of the runs behind it (Random16).
struct StochasticBits {
  const uint32_t* words;
  HWY_INLINE VU operator()(size_t i) const {
    const DU du;
    const VU word = hn::LoadU(du, words + i / kRun * 16 + i % kRandomLanes);
    switch (i % kRun / kRandomLanes) {
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
};
struct DitherSequence {
  explicit HWY_INLINE DitherSequence(uint32_t start)
      : first(hn::Add(hn::Mul(hn::Iota(DU(), 0), hn::Set(DU(), kWeylStep)), hn::Set(DU(), start))) {}
  HWY_INLINE VU operator()(size_t i) const {
    const DU du;
    const VU w = hn::Add(first, hn::Set(du, static_cast<uint32_t>(i) * kWeylStep));
    return hn::Or(hn::And(w, hn::Set(du, 0xFE00u)), hn::Set(du, 0x100u));
  }
  // 256 (1/2 - u) of the elements.
  HWY_INLINE VI Offset(size_t i) const {
    const DU du;
    const VU w = hn::Add(first, hn::Set(du, static_cast<uint32_t>(i) * kWeylStep));
    const VU twice = hn::And(hn::ShiftRight<8>(w), hn::Set(du, 0xFEu));
    return hn::BitCast(DI(), hn::Sub(hn::Set(du, 127u), twice));
  }
  VU first;
};
struct NearestBits {
  HWY_INLINE VU operator()(size_t) const { return hn::Set(DU(), kNearestBits); }
};

// ---- Encode

// Level of an element, in the upper half of each lane of the result: what it is made from is in the lower.
struct UniformLevel {
  explicit HWY_INLINE UniformLevel(const Codec&, const LevelScales& s)
      : minimum(hn::Set(D(), s.uniform.minimum)), steps(hn::Set(D(), s.uniform.steps)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    return hn::Add(hn::BitCast(DU(), ToNearest(hn::Mul(hn::Sub(x, minimum), steps))), u16);
  }
  V minimum, steps;
};
struct ZeroLevel {
  explicit HWY_INLINE ZeroLevel(const Codec& codec, const LevelScales& s) : uniform(codec, s) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const VU level = hn::Add(uniform(x, u16), hn::Set(DU(), 1u << 16));
    return hn::IfThenZeroElse(hn::RebindMask(DU(), hn::Eq(x, hn::Zero(D()))), level);
  }
  UniformLevel uniform;
};
struct SignLevel {
  explicit HWY_INLINE SignLevel(const Codec& codec, const LevelScales& s)
      : above(hn::Set(D(), s.sign.above_steps)),
        below(hn::Set(D(), s.sign.below_steps)),
        first_below(hn::Set(DU(), static_cast<uint32_t>(codec.levels - codec.below) << 16)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const V position = hn::Mul(hn::Abs(x), hn::IfThenElse(positive, above, below));
    const VU level = hn::Add(hn::BitCast(DU(), ToNearest(position)), u16);
    return hn::Add(level, hn::IfThenZeroElse(hn::RebindMask(DU(), positive), first_below));
  }
  V above, below;
  VU first_below;
};

template <int kBits, class Level, class Bits>
void QuantizeGroup(const float* x, size_t count, const Level& level, const Bits& bits, uint8_t* planes) {
  const D d;
  const DU du;
  const size_t plane_bytes = (count + 7) / 8;
  const auto run = [&](const float* from, size_t i, uint8_t* to, size_t to_plane_bytes, size_t at) HWY_ATTR {
    for (size_t lane = 0; lane < kRun; lane += hn::Lanes(d)) {
      const VU q = level(hn::LoadU(d, from + lane), bits(i + lane));
      for (size_t b = 0; b < kBits; ++b)
        StoreBits(hn::RebindMask(d, hn::TestBit(q, hn::Set(du, 0x10000u << b))), to + b * to_plane_bytes,
                  at + lane);
    }
  };
  size_t i = 0;
  for (; i + kRun <= count; i += kRun) run(x + i, i, planes, plane_bytes, i);
  if (i == count) return;
  // The end of a sample: a run padded on both sides, of which the bits inside are kept.
  const size_t rest = count - i;
  float padded[kRun];
  std::fill(padded, padded + kRun, x[i]);
  std::copy(x + i, x + count, padded);
  uint8_t tail[kBits * kRun / 8];
  run(padded, i, tail, kRun / 8, 0);
  for (size_t b = 0; b < kBits; ++b) {
    uint8_t* last = planes + b * plane_bytes + i / 8;
    std::memcpy(last, tail + b * kRun / 8, (rest + 7) / 8);
    if (rest % 8 != 0) last[rest / 8] &= static_cast<uint8_t>((1u << rest % 8) - 1);
  }
}

template <class Level, class Bits>
void QuantizeBits(int bits, const float* x, size_t count, const Level& level, const Bits& u16,
                  uint8_t* planes) {
  switch (bits) {
    case 1:
      return QuantizeGroup<1>(x, count, level, u16, planes);
    case 2:
      return QuantizeGroup<2>(x, count, level, u16, planes);
    case 3:
      return QuantizeGroup<3>(x, count, level, u16, planes);
    case 4:
      return QuantizeGroup<4>(x, count, level, u16, planes);
    case 5:
      return QuantizeGroup<5>(x, count, level, u16, planes);
    case 6:
      return QuantizeGroup<6>(x, count, level, u16, planes);
    case 7:
      return QuantizeGroup<7>(x, count, level, u16, planes);
    default:
      return QuantizeGroup<8>(x, count, level, u16, planes);
  }
}

template <class Level>
void QuantizeLevels(const Codec& codec, const float* x, size_t count, const LevelScales& scales,
                    uint32_t start, const uint32_t* words, uint8_t* planes) {
  const Level level(codec, scales);
  if (codec.rounding == Rounding::kDither)
    return QuantizeBits(codec.bits, x, count, level, DitherSequence(start), planes);
  if (codec.rounding == Rounding::kNearest)
    return QuantizeBits(codec.bits, x, count, level, NearestBits(), planes);
  QuantizeBits(codec.bits, x, count, level, StochasticBits{words}, planes);
}

// One group. start: of its dither sequence. words: its stochastic bits.
void EncodeLevels(const Codec& codec, const float* x, size_t count, const LevelScales& scales, uint32_t start,
                  const uint32_t* words, uint8_t* planes) {
  if (codec.kind == CodecKind::kSign)
    return QuantizeLevels<SignLevel>(codec, x, count, scales, start, words, planes);
  if (codec.kind == CodecKind::kZero)
    return QuantizeLevels<ZeroLevel>(codec, x, count, scales, start, words, planes);
  QuantizeLevels<UniformLevel>(codec, x, count, scales, start, words, planes);
}

// ---- Decode

// What becomes of a code's number: value in 1/256 of a level with the rounding's offset, and the code itself
// times 256.
struct UniformValue {
  explicit HWY_INLINE UniformValue(const Codec&, const LevelScales& s)
      : minimum(hn::Set(D(), s.uniform.minimum)), scale(hn::Set(D(), s.uniform.scale * 0x1p-8f)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {  // the product is exact (see DequantizeUniform)
    return hn::MulAdd(hn::ConvertTo(D(), hn::Add(q256, offset)), scale, minimum);
  }
  V minimum, scale;
};
struct ZeroValue {
  explicit HWY_INLINE ZeroValue(const Codec& codec, const LevelScales& s)
      : uniform(codec, s), zero(hn::Set(D(), s.uniform.minimum - s.uniform.minimum)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {
    const V value = uniform(hn::Sub(q256, hn::Set(DI(), 256)), offset);
    return hn::IfThenElse(hn::RebindMask(D(), hn::Eq(q256, hn::Zero(DI()))), zero, value);
  }
  UniformValue uniform;
  V zero;
};
struct SignValue {
  explicit HWY_INLINE SignValue(const Codec& codec, const LevelScales& s)
      : above(hn::Set(D(), s.sign.above * 0x1p-8f)),
        below(hn::Set(D(), s.sign.below * -0x1p-8f)),
        first_below(hn::Set(DI(), (codec.levels - codec.below) * 256)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {
    const auto negative = hn::Not(hn::Lt(q256, first_below));
    const VI position = hn::Add(hn::Sub(q256, hn::IfThenElseZero(negative, first_below)), offset);
    return hn::Mul(hn::ConvertTo(D(), position), hn::IfThenElse(hn::RebindMask(D(), negative), below, above));
  }
  V above, below;
  VI first_below;
};
// 1 where the code is one of an element greater than 0 (kZero: not 0).
struct MaskValue {
  explicit HWY_INLINE MaskValue(const Codec& codec, const LevelScales&)
      : from(hn::Set(DI(), codec.kind == CodecKind::kZero ? 256 : 0)),
        to(hn::Set(DI(), (codec.levels - codec.below) * 256)) {}
  HWY_INLINE V operator()(VI q256, VI) const {
    const auto inside = hn::AndNot(hn::Lt(q256, from), hn::Lt(q256, to));
    return hn::IfThenElseZero(hn::RebindMask(D(), inside), hn::Set(D(), 1.0f));
  }
  VI from, to;
};

struct NoOffset {
  HWY_INLINE VI Offset(size_t) const { return hn::Zero(DI()); }
};

template <int kBits, class Value, class Rounded>
void DecodeGroup(const uint8_t* planes, size_t plane_bytes, size_t count, const Value& value,
                 const Rounded& rounded, const float* times, float* x) {
  const D d;
  const DI di;
  const auto decode = [&](size_t i) HWY_ATTR {
    VI q256 = hn::Zero(di);
    for (int b = 0; b < kBits; ++b) {
      const auto bit = hn::RebindMask(di, LoadMask(planes + static_cast<size_t>(b) * plane_bytes, i));
      q256 = hn::IfThenElse(bit, hn::Or(q256, hn::Set(di, 256 << b)), q256);
    }
    return value(q256, rounded.Offset(i));
  };
  size_t i = 0;
  if (times) {
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
      hn::StoreU(hn::Mul(decode(i), hn::LoadU(d, times + i)), d, x + i);
  } else {
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) hn::StoreU(decode(i), d, x + i);
  }
  if (i == count) return;
  const Mask rest = hn::FirstN(d, count - i);
  V v = decode(i);
  if (times) v = hn::Mul(v, hn::MaskedLoad(rest, d, times + i));
  hn::BlendedStore(v, rest, d, x + i);
}

template <class Value, class Rounded>
void DecodeBits(int bits, const uint8_t* planes, size_t plane_bytes, size_t count, const Value& value,
                const Rounded& rounded, const float* times, float* x) {
  switch (bits) {
    case 1:
      return DecodeGroup<1>(planes, plane_bytes, count, value, rounded, times, x);
    case 2:
      return DecodeGroup<2>(planes, plane_bytes, count, value, rounded, times, x);
    case 3:
      return DecodeGroup<3>(planes, plane_bytes, count, value, rounded, times, x);
    case 4:
      return DecodeGroup<4>(planes, plane_bytes, count, value, rounded, times, x);
    case 5:
      return DecodeGroup<5>(planes, plane_bytes, count, value, rounded, times, x);
    case 6:
      return DecodeGroup<6>(planes, plane_bytes, count, value, rounded, times, x);
    case 7:
      return DecodeGroup<7>(planes, plane_bytes, count, value, rounded, times, x);
    default:
      return DecodeGroup<8>(planes, plane_bytes, count, value, rounded, times, x);
  }
}

template <class Value>
void DecodeValues(const Codec& codec, const LevelScales& scales, uint32_t start, const uint8_t* planes,
                  size_t plane_bytes, size_t count, const float* times, float* x) {
  const Value value(codec, scales);
  if (codec.rounding == Rounding::kDither)
    return DecodeBits(codec.bits, planes, plane_bytes, count, value, DitherSequence(start), times, x);
  DecodeBits(codec.bits, planes, plane_bytes, count, value, NoOffset(), times, x);
}

// One group of `count` elements, whose planes are plane_bytes apart and readable a vector at a time.
void DecodeLevels(const Codec& codec, const uint8_t* metadata, uint32_t start, const uint8_t* planes,
                  size_t plane_bytes, size_t count, bool mask, const float* times, float* x) {
  uint16_t stored[2];
  std::memcpy(stored, metadata, 4);
  LevelScales scales;
  if (codec.kind == CodecKind::kSign) {
    scales.sign = LoadSignScale(stored[0], stored[1]);
  } else {
    scales.uniform = LoadUniformScale(stored[0], stored[1]);
  }
  if (mask)
    return DecodeBits(codec.bits, planes, plane_bytes, count, MaskValue(codec, scales), NoOffset(), times, x);
  if (codec.kind == CodecKind::kSign)
    return DecodeValues<SignValue>(codec, scales, start, planes, plane_bytes, count, times, x);
  if (codec.kind == CodecKind::kZero)
    return DecodeValues<ZeroValue>(codec, scales, start, planes, plane_bytes, count, times, x);
  DecodeValues<UniformValue>(codec, scales, start, planes, plane_bytes, count, times, x);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVELS_INL_H_
