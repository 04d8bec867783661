// Decode of codes with levels, a group at a time: kernels/math/level_code.h in vectors. Included once per
// instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_LEVEL_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_LEVEL_DECODE_INL_H_
#undef ACT_LEVEL_DECODE_INL_H_
#else
#define ACT_LEVEL_DECODE_INL_H_
#endif

#include "kernels/cpu/fitted-inl.h"
#include "kernels/cpu/packed_words-inl.h"
#include "kernels/cpu/rounding-inl.h"
#include "kernels/math/level_code.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// What becomes of a code's number, times 256, with the rounding's offset in 1/256 of a level.
struct UniformValue {
  explicit HWY_INLINE UniformValue(const Codec&, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)), scale(hn::Set(D(), s.scale * 0x1p-8f)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {  // the product is exact (see StepsOf)
    return hn::MulAdd(hn::ConvertTo(D(), hn::Add(q256, offset)), scale, minimum);
  }
  V minimum, scale;
};
struct SignValue {
  explicit HWY_INLINE SignValue(const Codec& codec, const GroupScale& s)
      : above(hn::Set(D(), s.scale * 0x1p-8f)),
        below(hn::Set(D(), s.below * -0x1p-8f)),
        first_below(hn::Set(DI(), codec.LevelsAbove() * 256)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {
    const auto negative = hn::Not(hn::Lt(q256, first_below));
    const VI position = hn::Add(hn::Sub(q256, hn::IfThenElseZero(negative, first_below)), offset);
    return hn::Mul(hn::ConvertTo(D(), position), hn::IfThenElse(hn::RebindMask(D(), negative), below, above));
  }
  V above, below;
  VI first_below;
};
struct FittedUniformValue {
  explicit HWY_INLINE FittedUniformValue(const Codec& codec, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)),
        scale(hn::Set(D(), s.scale * kFittedUnit)),
        levels(*FittedLevelsOf(codec).above) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {
    return hn::MulAdd(hn::ConvertTo(D(), FittedValues(hn::ShiftRight<8>(q256), levels, offset)), scale,
                      minimum);
  }
  V minimum, scale;
  const FittedLevels& levels;
};
struct FittedSignValue {
  explicit HWY_INLINE FittedSignValue(const Codec& codec, const GroupScale& s)
      : above(hn::Set(D(), s.scale * kFittedUnit)),
        below(hn::Set(D(), s.below * -kFittedUnit)),
        first_below(hn::Set(DI(), codec.LevelsAbove())),
        fitted(FittedLevelsOf(codec)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {
    const VI q = hn::ShiftRight<8>(q256);
    const auto negative = hn::Not(hn::Lt(q, first_below));
    // Each table is asked for its own codes; where a lane is of the other side, for its first.
    const VI of_above = FittedValues(hn::IfThenZeroElse(negative, q), *fitted.above, offset);
    const VI of_below =
        FittedValues(hn::IfThenElseZero(negative, hn::Sub(q, first_below)), *fitted.below, offset);
    return hn::Mul(hn::ConvertTo(D(), hn::IfThenElse(negative, of_below, of_above)),
                   hn::IfThenElse(hn::RebindMask(D(), negative), below, above));
  }
  V above, below;
  VI first_below;
  FittedPair fitted;
};
// 0 for code 0.
template <class Value>
struct ZeroOrValue {
  explicit HWY_INLINE ZeroOrValue(const Codec& codec, const GroupScale& s)
      : of_others(codec, s), zero(hn::Set(D(), s.minimum - s.minimum)) {}
  HWY_INLINE V operator()(VI q256, VI offset) const {
    const auto is_zero = hn::Eq(q256, hn::Zero(DI()));
    const V value = of_others(hn::IfThenZeroElse(is_zero, hn::Sub(q256, hn::Set(DI(), 256))), offset);
    return hn::IfThenElse(hn::RebindMask(D(), is_zero), zero, value);
  }
  Value of_others;
  V zero;
};
// 1 where the code is one of an element greater than 0 (kZero: not 0).
struct MaskValue {
  explicit HWY_INLINE MaskValue(const Codec& codec)
      : from(hn::Set(DI(), codec.kind == CodecKind::kZero ? 256 : 0)),
        to(hn::Set(DI(), codec.LevelsAbove() * 256)) {}
  HWY_INLINE V operator()(VI q256, VI) const {
    const auto inside = hn::AndNot(hn::Lt(q256, from), hn::Lt(q256, to));
    return hn::IfThenElseZero(hn::RebindMask(D(), inside), hn::Set(D(), 1.0f));
  }
  VI from, to;
};

// x[i] = value of code i, times times[i] where `times` is not null. codes(i): 256 times those of i .. i +
// lanes - 1.
template <class Codes, class Value, class Rounded>
HWY_INLINE void DecodeRun(const Codes& codes, size_t count, const Value& value, const Rounded& rounded,
                          const float* times, float* x) {
  const D d;
  const auto decode = [&](size_t i) HWY_ATTR { return value(codes(i), rounded.Offset(i)); };
  size_t i = 0;
  if (times) {
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
      hn::StoreU(hn::Mul(decode(i), hn::LoadU(d, times + i)), d, x + i);
  } else {
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      ReadAhead(x + i);
      hn::StoreU(decode(i), d, x + i);
    }
  }
  if (i == count) return;
  const Mask rest = hn::FirstN(d, count - i);
  V v = decode(i);
  if (times) v = hn::Mul(v, hn::MaskedLoad(rest, d, times + i));
  hn::BlendedStore(v, rest, d, x + i);
}

// Planes are plane_bytes apart and readable a vector at a time.
template <int kBits, class Value, class Rounded>
void DecodeGroup(const uint8_t* planes, size_t plane_bytes, size_t count, const Value& value,
                 const Rounded& rounded, const float* times, float* x) {
  const DI di;
  const auto codes = [&](size_t i) HWY_ATTR {
    VI q256 = hn::Zero(di);
    for (int b = 0; b < kBits; ++b) {
      const auto bit = hn::RebindMask(di, LoadMask(planes + static_cast<size_t>(b) * plane_bytes, i));
      q256 = hn::IfThenElse(bit, hn::Or(q256, hn::Set(di, 256 << b)), q256);
    }
    return q256;
  };
  DecodeRun(codes, count, value, rounded, times, x);
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

// Short groups' planes are copied to where a vector may read behind them.
template <class Value, class Rounded>
void DecodePlanes(const Codec& codec, const uint8_t* planes, size_t count, const Value& value,
                  const Rounded& rounded, const float* times, float* x) {
  const size_t plane_bytes = (count + 7) / 8;
  if (count == static_cast<size_t>(codec.group_size))
    return DecodeBits(codec.bits, planes, plane_bytes, count, value, rounded, times, x);
  const PaddedPlanes padded(planes, plane_bytes, codec.bits);
  DecodeBits(codec.bits, padded.bytes, PaddedPlanes::kPlaneBytes, count, value, rounded, times, x);
}

template <class Value, class Rounded>
void UnpackAndDecode(const Codec& codec, const uint8_t* payload, size_t count, const Value& value,
                     const Rounded& rounded, const float* times, float* x) {
  const CodePacking packing = CodePackingOf(codec);
  if (packing.codes == 1) return DecodePlanes(codec, payload, count, value, rounded, times, x);
  alignas(64) uint8_t q[kMostGroup + kRun];
  UnpackWords(payload, count, codec.levels, packing, q);
  const auto codes = [&](size_t i) HWY_ATTR {
    return hn::ShiftLeft<8>(hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<uint8_t, D>(), q + i)));
  };
  DecodeRun(codes, count, value, rounded, times, x);
}

// ---- Groups

template <class Value>
void DecodeValues(const Codec& codec, const GroupScale& scale, uint32_t start, const uint8_t* payload,
                  size_t count, const float* times, float* x) {
  const Value value(codec, scale);
  if (codec.rounding == Rounding::kDither)
    return UnpackAndDecode(codec, payload, count, value, DitherSequence(start), times, x);
  UnpackAndDecode(codec, payload, count, value, NoOffset(), times, x);
}
template <class Value>
void DecodeFitted(const Codec& codec, const GroupScale& scale, uint32_t start, const uint8_t* payload,
                  size_t count, const float* times, float* x) {
  UnpackAndDecode(codec, payload, count, Value(codec, scale), DitherSequence(start), times, x);
}

// One group of `count` elements.
void DecodeLevels(const Codec& codec, const uint8_t* metadata, uint32_t start, const uint8_t* payload,
                  size_t count, bool mask, const float* times, float* x) {
  if (mask) return UnpackAndDecode(codec, payload, count, MaskValue(codec), NoOffset(), times, x);
  const GroupScale scale = LoadGroupScale(codec, metadata);
  const bool fitted = codec.spacing == Spacing::kFitted;
  switch (codec.kind) {
    case CodecKind::kSign:
      return fitted ? DecodeFitted<FittedSignValue>(codec, scale, start, payload, count, times, x)
                    : DecodeValues<SignValue>(codec, scale, start, payload, count, times, x);
    case CodecKind::kZero:
      return fitted ? DecodeFitted<ZeroOrValue<FittedUniformValue>>(codec, scale, start, payload, count,
                                                                    times, x)
                    : DecodeValues<ZeroOrValue<UniformValue>>(codec, scale, start, payload, count, times, x);
    default:
      return fitted ? DecodeFitted<FittedUniformValue>(codec, scale, start, payload, count, times, x)
                    : DecodeValues<UniformValue>(codec, scale, start, payload, count, times, x);
  }
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVEL_DECODE_INL_H_
