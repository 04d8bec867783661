// Encode of codes with levels, a group at a time: kernels/math/level_code.h in vectors. Included once per
// instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_LEVEL_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_LEVEL_ENCODE_INL_H_
#undef ACT_LEVEL_ENCODE_INL_H_
#else
#define ACT_LEVEL_ENCODE_INL_H_
#endif

#include "kernels/cpu/fitted-inl.h"
#include "kernels/cpu/packed_words-inl.h"
#include "kernels/cpu/rounding-inl.h"
#include "kernels/math/level_code.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// Level of an element, in the upper half of each lane of the result: what it is made from is in the lower.
struct UniformLevel {
  explicit HWY_INLINE UniformLevel(const Codec&, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)), inverse(hn::Set(D(), InverseOf(s.scale))) {}
  HWY_INLINE VU Position(V x) const {
    return hn::BitCast(DU(), ToNearest(hn::Mul(hn::Sub(x, minimum), inverse)));
  }
  HWY_INLINE VU operator()(V x, VU u16) const { return hn::Add(Position(x), u16); }
  V minimum, inverse;
};
struct SignLevel {
  explicit HWY_INLINE SignLevel(const Codec& codec, const GroupScale& s)
      : above(hn::Set(D(), InverseOf(s.scale))),
        below(hn::Set(D(), InverseOf(s.below))),
        first_below(hn::Set(DU(), static_cast<uint32_t>(codec.LevelsAbove()) << 16)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const V position = hn::Mul(hn::Abs(x), hn::IfThenElse(positive, above, below));
    const VU level = hn::Add(hn::BitCast(DU(), ToNearest(position)), u16);
    return hn::Add(level, hn::IfThenZeroElse(hn::RebindMask(DU(), positive), first_below));
  }
  V above, below;
  VU first_below;
};
struct SidesLevel {
  explicit HWY_INLINE SidesLevel(const Codec& codec, const GroupScale& s)
      : sign(codec, s), minimum(hn::Set(D(), s.minimum)), minimum_below(hn::Set(D(), s.minimum_below)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const V distance = hn::Sub(hn::Abs(x), hn::IfThenElse(positive, minimum, minimum_below));
    const V position = hn::Mul(distance, hn::IfThenElse(positive, sign.above, sign.below));
    const VU level = hn::Add(hn::BitCast(DU(), ToNearest(position)), u16);
    return hn::Add(level, hn::IfThenZeroElse(hn::RebindMask(DU(), positive), sign.first_below));
  }
  SignLevel sign;
  V minimum, minimum_below;
};
struct FittedUniformLevel {
  explicit HWY_INLINE FittedUniformLevel(const Codec& codec, const GroupScale& s)
      : even(codec, s), levels(*FittedLevelsOf(codec).above) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    return hn::Add(FittedPositions(even.Position(x), levels), u16);
  }
  UniformLevel even;
  const FittedLevels& levels;
};
struct FittedSignLevel {
  explicit HWY_INLINE FittedSignLevel(const Codec& codec, const GroupScale& s)
      : even(codec, s), fitted(FittedLevelsOf(codec)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const VU above = FittedPositions(Position(x, even.above), *fitted.above);
    const VU below = hn::Add(FittedPositions(Position(x, even.below), *fitted.below), even.first_below);
    return hn::Add(hn::IfThenElse(hn::RebindMask(DU(), positive), above, below), u16);
  }
  static HWY_INLINE VU Position(V x, V inverse) {
    return hn::BitCast(DU(), ToNearest(hn::Mul(hn::Abs(x), inverse)));
  }
  SignLevel even;
  FittedPair fitted;
};
// Code 0 where x is 0, the others behind it.
template <class Level>
struct ZeroOr {
  explicit HWY_INLINE ZeroOr(const Codec& codec, const GroupScale& s) : of_others(codec, s) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const VU level = hn::Add(of_others(x, u16), hn::Set(DU(), 1u << 16));
    return hn::IfThenZeroElse(hn::RebindMask(DU(), hn::Eq(x, hn::Zero(D()))), level);
  }
  Level of_others;
};

// ---- Bit planes: codes of a power of two of levels go there from compare masks

template <int kBits, class Level, class Bits>
void QuantizeGroup(const float* x, size_t count, const Level& level, Bits bits, uint8_t* planes) {
  const D d;
  const DU du;
  const size_t plane_bytes = (count + 7) / 8;
  const auto run = [&](const float* from, uint8_t* to, size_t to_plane_bytes, size_t at) HWY_ATTR {
    for (size_t lane = 0; lane < kRun; lane += hn::Lanes(d)) {
      ReadAhead(from + lane);
      const VU q = level(hn::LoadU(d, from + lane), bits.Next());
      for (size_t b = 0; b < kBits; ++b)
        StoreBits(hn::RebindMask(d, hn::TestBit(q, hn::Set(du, 0x10000u << b))), to + b * to_plane_bytes,
                  at + lane);
    }
  };
  size_t i = 0;
  for (; i + kRun <= count; i += kRun) run(x + i, planes, plane_bytes, i);
  if (i == count) return;
  // The end of a sample: a run padded on both sides, of which the bits inside are kept.
  const size_t rest = count - i;
  float padded[kRun];
  std::fill(padded, padded + kRun, x[i]);
  std::copy(x + i, x + count, padded);
  uint8_t tail[kBits * kRun / 8];
  run(padded, tail, kRun / 8, 0);
  for (size_t b = 0; b < kBits; ++b) {
    uint8_t* last = planes + b * plane_bytes + i / 8;
    std::memcpy(last, tail + b * kRun / 8, (rest + 7) / 8);
    if (rest % 8 != 0) last[rest / 8] &= static_cast<uint8_t>((1u << rest % 8) - 1);
  }
}

template <class Level, class Bits>
void QuantizeBits(int bits, const float* x, size_t count, const Level& level, Bits u16, uint8_t* planes) {
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

// ---- Bytes: other codes are packed from there

template <class Level, class Bits>
void QuantizeBytes(const float* x, size_t count, const Level& level, Bits bits, uint8_t* q) {
  const D d;
  const auto store = [&](V v, size_t i) HWY_ATTR {
    hn::StoreU(hn::U8FromU32(hn::ShiftRight<16>(level(v, bits.Next()))), hn::Rebind<uint8_t, D>(), q + i);
  };
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) store(hn::LoadU(d, x + i), i);
  if (i == count) return;
  const Mask rest = hn::FirstN(d, count - i);
  store(hn::IfThenElse(rest, hn::MaskedLoad(rest, d, x + i), hn::Set(d, x[i])), i);
}

template <class Level, class Bits>
void QuantizeAndPack(const Codec& codec, const float* x, size_t count, const Level& level, Bits bits,
                     uint8_t* payload) {
  const CodePacking packing = CodePackingOf(codec);
  if (packing.codes == 1 && codec.spacing == Spacing::kEven)
    return QuantizeBits(codec.bits, x, count, level, bits, payload);
  alignas(64) uint8_t q[kMostGroup + kRun];
  QuantizeBytes(x, count, level, bits, q);
  if (packing.codes == 1) {
    std::fill(q + count, q + (count + kRun - 1) / kRun * kRun, uint8_t{0});
    PackPlanes(q, count, codec.bits, payload);
  } else {
    PackWords(q, count, codec.levels, packing, payload);
  }
}

// ---- Groups

template <class Level>
void QuantizeLevels(const Codec& codec, const float* x, size_t count, const GroupScale& scale, uint32_t start,
                    const uint32_t* words, uint8_t* payload) {
  const Level level(codec, scale);
  if (codec.rounding == Rounding::kDither)
    return QuantizeAndPack(codec, x, count, level, DitherSequence(start), payload);
  if (codec.rounding == Rounding::kNearest)
    return QuantizeAndPack(codec, x, count, level, NearestBits(), payload);
  QuantizeAndPack(codec, x, count, level, StochasticBits(words), payload);
}
// Fitted levels are rounded with dither alone.
template <class Level>
void QuantizeFitted(const Codec& codec, const float* x, size_t count, const GroupScale& scale, uint32_t start,
                    uint8_t* payload) {
  QuantizeAndPack(codec, x, count, Level(codec, scale), DitherSequence(start), payload);
}

// One group. start: of its dither sequence. words: its stochastic bits.
void EncodeLevels(const Codec& codec, const float* x, size_t count, const GroupScale& scale, uint32_t start,
                  const uint32_t* words, uint8_t* payload) {
  const bool fitted = codec.spacing == Spacing::kFitted;
  switch (codec.kind) {
    case CodecKind::kSign:
      if (codec.metadata == Metadata::kSides)
        return QuantizeLevels<SidesLevel>(codec, x, count, scale, start, words, payload);
      return fitted ? QuantizeFitted<FittedSignLevel>(codec, x, count, scale, start, payload)
                    : QuantizeLevels<SignLevel>(codec, x, count, scale, start, words, payload);
    case CodecKind::kZero:
      return fitted ? QuantizeFitted<ZeroOr<FittedUniformLevel>>(codec, x, count, scale, start, payload)
                    : QuantizeLevels<ZeroOr<UniformLevel>>(codec, x, count, scale, start, words, payload);
    default:
      return fitted ? QuantizeFitted<FittedUniformLevel>(codec, x, count, scale, start, payload)
                    : QuantizeLevels<UniformLevel>(codec, x, count, scale, start, words, payload);
  }
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVEL_ENCODE_INL_H_
