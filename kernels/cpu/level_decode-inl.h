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

// What becomes of a decoded position: 256 times the code, with the rounding's offset of -127..127 added.
struct UniformValue {
  explicit HWY_INLINE UniformValue(const Codec&, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)), scale(hn::Set(D(), s.scale * 0x1p-8f)) {}
  HWY_INLINE V operator()(VI position) const {  // the product is exact (see StepsOf)
    return hn::MulAdd(hn::ConvertTo(D(), position), scale, minimum);
  }
  V minimum, scale;
};
// Whether a position is of a code of the levels at or below 0: they are 256 apart, and offsets less than 128.
HWY_INLINE hn::Mask<DI> IsBelow(VI position, int levels_above) {
  return hn::Gt(position, hn::Set(DI(), levels_above * 256 - 128));
}
struct SignValue {
  explicit HWY_INLINE SignValue(const Codec& codec, const GroupScale& s)
      : above(hn::Set(D(), s.scale * 0x1p-8f)),
        below(hn::Set(D(), s.below * -0x1p-8f)),
        levels_above(codec.LevelsAbove()) {}
  HWY_INLINE V operator()(VI position) const {
    const auto negative = IsBelow(position, levels_above);
    const VI steps = hn::Sub(position, hn::IfThenElseZero(negative, hn::Set(DI(), levels_above * 256)));
    return hn::Mul(hn::ConvertTo(D(), steps), hn::IfThenElse(hn::RebindMask(D(), negative), below, above));
  }
  V above, below;
  int levels_above;
};
struct SidesValue {
  explicit HWY_INLINE SidesValue(const Codec& codec, const GroupScale& s)
      : sign(codec, s), minimum(hn::Set(D(), s.minimum)), minimum_below(hn::Set(D(), -s.minimum_below)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto negative = IsBelow(position, sign.levels_above);
    const VI steps = hn::Sub(position, hn::IfThenElseZero(negative, hn::Set(DI(), sign.levels_above * 256)));
    const Mask below = hn::RebindMask(D(), negative);
    return hn::MulAdd(hn::ConvertTo(D(), steps), hn::IfThenElse(below, sign.below, sign.above),
                      hn::IfThenElse(below, minimum_below, minimum));
  }
  SignValue sign;
  V minimum, minimum_below;
};
// The code and the offset of a position.
HWY_INLINE VI CodeOf(VI position) { return hn::ShiftRight<8>(hn::Add(position, hn::Set(DI(), 128))); }
HWY_INLINE VI OffsetOf(VI position, VI code) { return hn::Sub(position, hn::ShiftLeft<8>(code)); }

struct FittedUniformValue {
  explicit HWY_INLINE FittedUniformValue(const Codec& codec, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)),
        scale(hn::Set(D(), s.scale * kFittedUnit)),
        levels(*FittedLevelsOf(codec).above) {}
  HWY_INLINE V operator()(VI position) const {
    const VI q = CodeOf(position);
    return hn::MulAdd(hn::ConvertTo(D(), FittedValues(q, levels, OffsetOf(position, q))), scale, minimum);
  }
  V minimum, scale;
  const FittedLevels& levels;
};
struct FittedSignValue {
  explicit HWY_INLINE FittedSignValue(const Codec& codec, const GroupScale& s)
      : above(hn::Set(D(), s.scale * kFittedUnit)),
        below(hn::Set(D(), s.below * -kFittedUnit)),
        levels_above(codec.LevelsAbove()),
        fitted(FittedLevelsOf(codec)) {}
  HWY_INLINE V operator()(VI position) const {
    const VI q = CodeOf(position), offset = OffsetOf(position, q);
    const auto negative = IsBelow(position, levels_above);
    // Each table is asked for its own codes; where a lane is of the other side, for its first.
    const VI of_above = FittedValues(hn::IfThenZeroElse(negative, q), *fitted.above, offset);
    const VI q_below = hn::Sub(q, hn::Set(DI(), levels_above));
    const VI of_below = FittedValues(hn::IfThenElseZero(negative, q_below), *fitted.below, offset);
    return hn::Mul(hn::ConvertTo(D(), hn::IfThenElse(negative, of_below, of_above)),
                   hn::IfThenElse(hn::RebindMask(D(), negative), below, above));
  }
  V above, below;
  int levels_above;
  FittedPair fitted;
};
// 0 for code 0.
template <class Value>
struct ZeroOrValue {
  explicit HWY_INLINE ZeroOrValue(const Codec& codec, const GroupScale& s)
      : of_others(codec, s), zero(hn::Set(D(), s.minimum - s.minimum)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto is_zero = hn::Lt(position, hn::Set(DI(), 128));
    const V value = of_others(hn::IfThenZeroElse(is_zero, hn::Sub(position, hn::Set(DI(), 256))));
    return hn::IfThenElse(hn::RebindMask(D(), is_zero), zero, value);
  }
  Value of_others;
  V zero;
};
// 1 where the code is one of an element greater than 0 (kZero: not 0). Positions are without offset.
struct MaskValue {
  explicit HWY_INLINE MaskValue(const Codec& codec)
      : from(hn::Set(DI(), codec.kind == CodecKind::kZero ? 256 : 0)),
        to(hn::Set(DI(), codec.LevelsAbove() * 256)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto inside = hn::AndNot(hn::Lt(position, from), hn::Lt(position, to));
    return hn::IfThenElseZero(hn::RebindMask(D(), inside), hn::Set(D(), 1.0f));
  }
  VI from, to;
};

// x[i] = value of code i, times times[i] where `times` is not null. codes(i): 256 times those of i .. i +
// lanes - 1.
template <class Codes, class Value, class Rounded>
HWY_INLINE void DecodeRun(const Codes& codes, size_t count, const Value& value, Rounded rounded,
                          const float* times, float* x) {
  const D d;
  const auto decode = [&](size_t i) HWY_ATTR { return value(codes(i, rounded.NextOffset())); };
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
void DecodeGroup(const uint8_t* planes, size_t plane_bytes, size_t count, const Value& value, Rounded rounded,
                 const float* times, float* x) {
  const DI di;
  const auto codes = [&](size_t i, VI position) HWY_ATTR {
    for (int b = 0; b < kBits; ++b) {
      const auto bit = hn::RebindMask(di, LoadMask(planes + static_cast<size_t>(b) * plane_bytes, i));
      position = hn::IfThenElse(bit, hn::Add(position, hn::Set(di, 256 << b)), position);
    }
    return position;
  };
  DecodeRun(codes, count, value, rounded, times, x);
}

template <class Value, class Rounded>
void DecodeBits(int bits, const uint8_t* planes, size_t plane_bytes, size_t count, const Value& value,
                Rounded rounded, const float* times, float* x) {
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
                  Rounded rounded, const float* times, float* x) {
  const size_t plane_bytes = (count + 7) / 8;
  if (count == static_cast<size_t>(codec.group_size))
    return DecodeBits(codec.bits, planes, plane_bytes, count, value, rounded, times, x);
  const PaddedPlanes padded(planes, plane_bytes, codec.bits);
  DecodeBits(codec.bits, padded.bytes, PaddedPlanes::kPlaneBytes, count, value, rounded, times, x);
}

template <class Value, class Rounded>
void UnpackAndDecode(const Codec& codec, const uint8_t* payload, size_t count, const Value& value,
                     Rounded rounded, const float* times, float* x) {
  const CodePacking packing = CodePackingOf(codec);
  if (packing.codes == 1) return DecodePlanes(codec, payload, count, value, rounded, times, x);
  alignas(64) uint8_t q[kMostGroup + kRun];
  UnpackWords(payload, count, codec.levels, packing, q);
  const auto codes = [&](size_t i, VI start) HWY_ATTR {
    return hn::Add(start, hn::ShiftLeft<8>(hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<uint8_t, D>(), q + i))));
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
      if (codec.metadata == Metadata::kSides)
        return DecodeValues<SidesValue>(codec, scale, start, payload, count, times, x);
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
