// Encodes codes with levels, a tile at a time: kernels/math/level_code.h in vectors. Included once
// per instruction set.

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

// The level of an element, in the upper half of each lane of the result. The lower half holds its
// source.
struct UniformLevel {
  HWY_INLINE UniformLevel(const LevelTables&, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)), inverse(hn::Set(D(), InverseOf(s.scale))) {}
  HWY_INLINE VU Position(V x) const {
    return hn::BitCast(DU(), ToNearest(hn::Mul(hn::Sub(x, minimum), inverse)));
  }
  HWY_INLINE VU operator()(V x, VU u16) const { return hn::Add(Position(x), u16); }
  V minimum, inverse;
};
// The other side's numbers have their sign, so |x| need not be computed.
struct SignLevel {
  HWY_INLINE SignLevel(const LevelTables& tables, const GroupScale& s)
      : above(hn::Set(D(), InverseOf(s.scale))),
        below(hn::Set(D(), -InverseOf(s.below))),
        first_below(hn::Set(DU(), static_cast<uint32_t>(tables.codec.LevelsAbove()) << 16)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const V position = hn::Mul(x, hn::IfThenElse(positive, above, below));
    const VU level = hn::Add(hn::BitCast(DU(), ToNearest(position)), u16);
    return hn::Add(level, hn::IfThenZeroElse(hn::RebindMask(DU(), positive), first_below));
  }
  V above, below;
  VU first_below;
};
struct SidesLevel {
  HWY_INLINE SidesLevel(const LevelTables& tables, const GroupScale& s)
      : sign(tables, s), minimum(hn::Set(D(), s.minimum)), minimum_below(hn::Set(D(), -s.minimum_below)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const V distance = hn::Sub(x, hn::IfThenElse(positive, minimum, minimum_below));
    const V position = hn::Mul(distance, hn::IfThenElse(positive, sign.above, sign.below));
    const VU level = hn::Add(hn::BitCast(DU(), ToNearest(position)), u16);
    return hn::Add(level, hn::IfThenZeroElse(hn::RebindMask(DU(), positive), sign.first_below));
  }
  SignLevel sign;
  V minimum, minimum_below;
};
struct FittedUniformLevel {
  HWY_INLINE FittedUniformLevel(const LevelTables& tables, const GroupScale& s)
      : even(tables, s), fitted(tables.fitted), cells(hn::Set(DU(), fitted.cells_above)) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const VU none = hn::Zero(DU());
    return hn::Add(FittedPositions<kMostFittedLevels>(even.Position(x), fitted, cells, none, none), u16);
  }
  UniformLevel even;
  const FittedTable& fitted;
  VU cells;
};
struct FittedSignLevel {
  HWY_INLINE FittedSignLevel(const LevelTables& tables, const GroupScale& s)
      : even(tables, s),
        fitted(tables.fitted),
        cells_above(hn::Set(DU(), fitted.cells_above)),
        cells_below(hn::Set(DU(), fitted.cells_below)),
        first_level(hn::Set(DU(), static_cast<uint32_t>(tables.codec.LevelsAbove()))) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const Mask positive = hn::Gt(x, hn::Zero(D()));
    const auto above = hn::RebindMask(DU(), positive);
    const V distance = hn::Mul(x, hn::IfThenElse(positive, even.above, even.below));
    const VU first_word = hn::IfThenZeroElse(above, hn::Set(DU(), uint32_t{kFittedCellWords}));
    const VU position = FittedPositions<2 * kMostFittedLevels>(
        hn::BitCast(DU(), ToNearest(distance)), fitted, hn::IfThenElse(above, cells_above, cells_below),
        first_word, hn::IfThenZeroElse(above, first_level));
    return hn::Add(position, u16);
  }
  SignLevel even;
  const FittedTable& fitted;
  VU cells_above, cells_below, first_level;
};
// Code 0 where x is 0. The other codes follow it.
template <class Level>
struct ZeroOr {
  HWY_INLINE ZeroOr(const LevelTables& tables, const GroupScale& s) : of_others(tables, s) {}
  HWY_INLINE VU operator()(V x, VU u16) const {
    const VU level = hn::Add(of_others(x, u16), hn::Set(DU(), 1u << 16));
    return hn::IfThenZeroElse(hn::RebindMask(DU(), hn::Eq(x, hn::Zero(D()))), level);
  }
  Level of_others;
};

// ---- Levels as bytes

#if HWY_TARGET != HWY_SCALAR
// Words below 2^8 as bytes, in order. Highway's own function would also clear their upper halves.
HWY_INLINE VB BytesOf(VW first, VW second) {
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return VB{_mm512_permutexvar_epi64(order, _mm512_packus_epi16(first.raw, second.raw))};
#elif HWY_TARGET == HWY_AVX2
  return VB{_mm256_permute4x64_epi64(_mm256_packus_epi16(first.raw, second.raw), 0xD8)};
#else
  return hn::ConcatEven(DB(), hn::BitCast(DB(), second), hn::BitCast(DB(), first));
#endif
}

// Of four vectors of elements.
template <class Level, class Bits>
HWY_INLINE VB LevelsOf(const float* x, const Level& level, Bits& bits) {
  const hn::Repartition<uint16_t, D> words;
  const size_t lanes = hn::Lanes(D());
  const auto next_two = [&](const float* at) HWY_ATTR {
    const auto first = hn::BitCast(words, level(hn::LoadU(D(), at), bits.Next()));
    const auto second = hn::BitCast(words, level(hn::LoadU(D(), at + lanes), bits.Next()));
    return hn::ConcatOdd(words, second, first);
  };
  const auto first = next_two(x), second = next_two(x + 2 * lanes);
  return BytesOf(first, second);
}
#endif

// For kRun elements.
template <class Level, class Bits>
HWY_INLINE void QuantizeRun(const float* x, const Level& level, Bits& bits, uint8_t* q) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < kRun; ++i)
    hn::StoreU(hn::U8FromU32(hn::ShiftRight<16>(level(hn::LoadU(D(), x + i), bits.Next()))),
               hn::Rebind<uint8_t, D>(), q + i);
#else
  for (size_t i = 0; i < kRun; i += hn::Lanes(DB())) hn::StoreU(LevelsOf(x + i, level, bits), DB(), q + i);
#endif
}

// For a group. q is written up to a multiple of kRun, with 0 after `count`.
template <class Level, class Bits>
HWY_INLINE void QuantizeGroup(const float* x, size_t count, const Level& level, Bits bits, uint8_t* q) {
  size_t i = 0;
  for (; i + kRun <= count; i += kRun) QuantizeRun(x + i, level, bits, q + i);
  if (i == count) return;
  float padded[kRun];
  std::fill(padded, padded + kRun, x[i]);
  std::copy(x + i, x + count, padded);
  QuantizeRun(padded, level, bits, q + i);
  std::fill(q + count, q + i + kRun, uint8_t{0});
}

// For a group of whole runs, whose levels become bit planes at once.
template <class Level, class Bits>
HWY_INLINE void EncodePlanes(const float* x, size_t count, const Level& level, Bits bits, int planes,
                             uint8_t* payload) {
#if HWY_TARGET == HWY_SCALAR
  uint8_t q[kMostGroup];
  QuantizeGroup(x, count, level, bits, q);
  PackPlanes(q, count, planes, payload);
#else
  constexpr size_t kLanes = hn::MaxLanes(DB());
  for (size_t i = 0; i < count; i += kLanes)
    StorePlanes(LevelsOf(x + i, level, bits), planes, count / 8, kLanes / 8, payload + i / 8);
#endif
}

// ---- Tiles

// The source and destination of a tile's groups. `words` holds their stochastic bits, 1/4 of a word
// per element.
struct GroupsToEncode {
  const float* x;
  size_t group, count;       // elements of a group, and of the tile
  const GroupScale* scales;  // of each group
  const uint32_t* starts;    // of its dither sequence
  const uint32_t* words;
  uint8_t* payload;
  int64_t group_bytes;  // from one group's payload to the next
  CodePacking packing;
};

template <class Level, class Bits>
void EncodeGroups(const LevelTables& tables, const GroupsToEncode& groups) {
  const CodePacking packing = groups.packing;
  alignas(64) uint8_t q[kMostGroup + kRun];
  uint8_t* payload = groups.payload;
  for (size_t g = 0, e = 0; e < groups.count; ++g, e += groups.group, payload += groups.group_bytes) {
    const size_t count = std::min(groups.group, groups.count - e);
    if (!IsFinite(groups.scales[g])) {
      std::memset(payload, 0, static_cast<size_t>(PayloadBytes(tables.codec, static_cast<int64_t>(count))));
      continue;
    }
    const Bits bits(groups.starts[g], groups.words + e / 4);
    const Level level(tables, groups.scales[g]);
    if (packing.codes == 1 && count % kRun == 0) {
      EncodePlanes(groups.x + e, count, level, bits, packing.bits, payload);
      continue;
    }
    QuantizeGroup(groups.x + e, count, level, bits, q);
    if (packing.codes == 1)
      PackPlanes(q, count, packing.bits, payload);
    else
      PackWords(q, count, tables.codec.levels, packing, payload);
  }
}

template <class Level>
void EncodeRounded(const LevelTables& tables, const GroupsToEncode& groups) {
  if (tables.codec.rounding == Rounding::kDither) return EncodeGroups<Level, DitherSequence>(tables, groups);
  if (tables.codec.rounding == Rounding::kNearest) return EncodeGroups<Level, NearestBits>(tables, groups);
  EncodeGroups<Level, StochasticBits>(tables, groups);
}

// There is one for each kind with levels. Fitted levels are always rounded with dither.
using EncodeLevelGroups = void(const Codec& codec, const GroupsToEncode& groups);

inline void EncodeUniform(const Codec& codec, const GroupsToEncode& groups) {
  const LevelTables tables(codec);
  codec.spacing != Spacing::kEven ? EncodeGroups<FittedUniformLevel, DitherSequence>(tables, groups)
                                  : EncodeRounded<UniformLevel>(tables, groups);
}
inline void EncodeSign(const Codec& codec, const GroupsToEncode& groups) {
  const LevelTables tables(codec);
  if (codec.metadata == Metadata::kSides) return EncodeRounded<SidesLevel>(tables, groups);
  codec.spacing != Spacing::kEven ? EncodeGroups<FittedSignLevel, DitherSequence>(tables, groups)
                                  : EncodeRounded<SignLevel>(tables, groups);
}
inline void EncodeZero(const Codec& codec, const GroupsToEncode& groups) {
  const LevelTables tables(codec);
  codec.spacing != Spacing::kEven ? EncodeGroups<ZeroOr<FittedUniformLevel>, DitherSequence>(tables, groups)
                                  : EncodeRounded<ZeroOr<UniformLevel>>(tables, groups);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVEL_ENCODE_INL_H_
