// Decodes codes with levels, a tile at a time: kernels/math/level_code.h in vectors. Included once
// per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_LEVEL_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_LEVEL_DECODE_INL_H_
#undef ACT_LEVEL_DECODE_INL_H_
#else
#define ACT_LEVEL_DECODE_INL_H_
#endif

#include <type_traits>

#include "kernels/cpu/code_bytes-inl.h"
#include "kernels/cpu/code_tile.h"
#include "kernels/cpu/decode_run-inl.h"
#include "kernels/cpu/packed_words-inl.h"
#include "kernels/cpu/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// The source and destination of a tile's groups. `scales` and `starts` have one entry per group,
// for codes with levels.
struct CodedGroups {
  const uint8_t* payload;
  int64_t group_bytes;  // from one group's payload to the next
  CodePacking packing;
  size_t group, count;  // elements of a group, and of the tile
  const GroupScale* scales;
  const uint32_t* starts;
  const DecodeEpilogue& epilogue;
  float* x;
};

// ---- Bit planes

// Decodes one group. Planes are plane_bytes apart and readable a vector at a time.
template <int kBits, class Value, class Offsets>
HWY_INLINE void DecodePlanes(const uint8_t* planes, size_t plane_bytes, size_t count,
                             const LevelTables& tables, const Value& value, Offsets offsets,
                             const Epilogue& epilogue, size_t first, float* x) {
  const DW d;
  const auto positions = [&](size_t i) HWY_ATTR {
    VW p = FirstPositions<kBits>(offsets);
    for (int b = 0; b < kBits; ++b) {
      const auto bit = LoadMask(planes + static_cast<size_t>(b) * plane_bytes, i);
      p = hn::IfThenElse(bit, hn::Add(p, hn::Set(d, static_cast<uint16_t>(256u << b))), p);
    }
    return p;
  };
  DecodeRun<kBits>(positions, count, tables, value, epilogue, first, x + first);
}

// Calls decode for each group: its number, first element, number of elements, planes, and the bytes from
// one plane to the next.
template <int kBits, class Decode>
HWY_INLINE void ForPlaneGroups(const CodedGroups& coded, const Decode& decode) {
  const uint8_t* planes = coded.payload;
  for (size_t g = 0, e = 0; e < coded.count; ++g, e += coded.group, planes += coded.group_bytes) {
    if (e + coded.group <= coded.count) {
      decode(g, e, coded.group, planes, coded.group / 8);
      continue;
    }
    // The planes of a short group are copied to memory that a vector may read past their end.
    const size_t count = coded.count - e;
    const PaddedPlanes padded(planes, (count + 7) / 8, kBits);
    decode(g, e, count, padded.bytes, PaddedPlanes::kPlaneBytes);
  }
}

template <int kBits, class Value, class Offsets>
void DecodePlaneGroups(const LevelTables& tables, const CodedGroups& coded) {
  const Epilogue epilogue(coded.epilogue);
  const auto decode = [&](size_t g, size_t e, size_t count, const uint8_t* planes,
                          size_t plane_bytes) HWY_ATTR {
    const Value value(tables, coded.scales[g]);
    const uint32_t start = coded.starts[g];
    if constexpr (kCodesAreBytes<Value>)
      DecodePlaneBytes<kBits, Offsets>(planes, plane_bytes, count, tables, value, start, epilogue, e,
                                       coded.x);
    else
      DecodePlanes<kBits>(planes, plane_bytes, count, tables, value, Offsets(start), epilogue, e, coded.x);
  };
  ForPlaneGroups<kBits>(coded, decode);
}

// ---- Masks

// Where codes of kBits planes, plane_bytes apart, are below `limit`: 64 codes, compared bit by bit.
template <int kBits>
HWY_INLINE uint64_t CodesBelow(const uint8_t* planes, size_t plane_bytes, int limit) {
  if (limit >= 1 << kBits) return ~uint64_t{0};
  uint64_t below = 0;
  for (int b = 0; b < kBits; ++b) {
    uint64_t plane;
    std::memcpy(&plane, planes + static_cast<size_t>(b) * plane_bytes, 8);
    below = (limit >> b & 1) != 0 ? ~plane | below : ~plane & below;
  }
  return below;
}

// The lowest bits, as a mask.
HWY_INLINE Mask MaskOfBits(uint64_t bits) {
#if HWY_TARGET == HWY_AVX3
  return Mask{static_cast<__mmask16>(bits)};
#else
  uint8_t bytes[8];
  std::memcpy(bytes, &bits, 8);
  return hn::LoadMaskBits(D(), bytes);
#endif
}

// x[i] = 1 where the code of element i is at least `from` and below `to`, else 0, with the epilogue.
template <Finish kFinish, int kBits>
HWY_INLINE void DecodeMaskRun(int from, int to, const uint8_t* planes, size_t plane_bytes, size_t count,
                              const Epilogue& epilogue, size_t first, float* x) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V one = hn::Set(d, 1.0f);
  const Mask none = hn::FirstN(d, 0);
  Finisher<kFinish> finisher(epilogue, first);
  for (size_t run = 0; run < count; run += 64) {
    const uint8_t* at = planes + run / 8;
    uint64_t inside = CodesBelow<kBits>(at, plane_bytes, to);
    if (from > 0) inside &= ~CodesBelow<kBits>(at, plane_bytes, from);
    for (size_t i = run; i < std::min(run + 64, count); i += lanes, inside >>= lanes) {
      const V v = hn::IfThenElseZero(MaskOfBits(inside), one);
      if (i + lanes > count) return finisher.Last(v, none, count - i, x + i);
      hn::StoreU(finisher.Next(v, none), d, x + i);
    }
  }
}

template <int kBits>
void DecodeMaskPlanes(int from, int to, const CodedGroups& coded) {
  const Epilogue epilogue(coded.epilogue);
  const auto decode = [&](size_t, size_t e, size_t count, const uint8_t* planes,
                          size_t plane_bytes) HWY_ATTR {
    if (epilogue.finish() == Finish::kNothing)
      DecodeMaskRun<Finish::kNothing, kBits>(from, to, planes, plane_bytes, count, epilogue, e, coded.x + e);
    else
      DecodeMaskRun<Finish::kScale, kBits>(from, to, planes, plane_bytes, count, epilogue, e, coded.x + e);
  };
  ForPlaneGroups<kBits>(coded, decode);
}

// ---- Several codes to a number

template <class Value, class Offsets>
void DecodeWordGroups(const LevelTables& tables, const CodedGroups& coded) {
  const DW d;
  alignas(64) uint8_t q[kMostGroup + kRun];
  const Epilogue epilogue(coded.epilogue);
  const uint8_t* words = coded.payload;
  for (size_t g = 0, e = 0; e < coded.count; ++g, e += coded.group, words += coded.group_bytes) {
    const size_t count = std::min(coded.group, coded.count - e);
    UnpackWords(words, count, tables.codec.levels, coded.packing, q);
    const Value value(tables, coded.scales[g]);
    if constexpr (kCodesAreBytes<Value>) {
      DecodeUnpackedBytes<Offsets>(q, count, tables, value, coded.starts[g], epilogue, e, coded.x);
      continue;
    }
    Offsets offsets(coded.starts[g]);
    const auto positions = [&](size_t i) HWY_ATTR {
      const VW code = hn::PromoteTo(d, hn::LoadU(DWBytes(), q + i));
      return hn::Add(hn::ShiftLeft<8>(code), FirstPositions<8>(offsets));
    };
    DecodeRun<8>(positions, count, tables, value, epilogue, e, coded.x + e);
  }
}

// ---- Tiles

// Calls f with the number of bits as a constant.
template <class F>
void ForBits(int bits, const F& f) {
  switch (bits) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 5:
      return f(std::integral_constant<int, 5>());
    case 6:
      return f(std::integral_constant<int, 6>());
    case 7:
      return f(std::integral_constant<int, 7>());
    default:
      return f(std::integral_constant<int, 8>());
  }
}

template <class Value, class Offsets>
void DecodeGroups(const LevelTables& tables, const CodedGroups& coded) {
  if (coded.packing.codes != 1) return DecodeWordGroups<Value, Offsets>(tables, coded);
  ForBits(coded.packing.bits,
          [&](auto bits) { DecodePlaneGroups<decltype(bits)::value, Value, Offsets>(tables, coded); });
}

template <class Value>
void DecodeRounded(const LevelTables& tables, const CodedGroups& coded) {
  return tables.codec.rounding == Rounding::kDither ? DecodeGroups<Value, DitherOffsets>(tables, coded)
                                                    : DecodeGroups<Value, NoOffsets>(tables, coded);
}

// There is one for each kind of packed codes. Fitted levels are always rounded with dither.
using DecodeCodeGroups = void(const Codec& codec, const CodedGroups& coded);

// Masks and indices.
inline void DecodeNumbers(const Codec& codec, const CodedGroups& coded) {
  if (codec.bits == 1) return DecodeMaskPlanes<1>(1, 2, coded);
  DecodeGroups<NumberValue, NoOffsets>(LevelTables(codec), coded);
}
// 1 where an element is greater than 0, for kinds that hold this.
inline void DecodeMasks(const Codec& codec, const CodedGroups& coded) {
  if (coded.packing.codes != 1) return DecodeWordGroups<MaskValue, NoOffsets>(LevelTables(codec), coded);
  const int from = codec.kind == CodecKind::kZero ? 1 : 0, to = codec.LevelsAbove();
  ForBits(coded.packing.bits, [&](auto bits) { DecodeMaskPlanes<decltype(bits)::value>(from, to, coded); });
}
inline void DecodeUniform(const Codec& codec, const CodedGroups& coded) {
  const LevelTables tables(codec);
  codec.spacing != Spacing::kEven ? DecodeGroups<FittedUniformValue, DitherOffsets>(tables, coded)
                                  : DecodeRounded<UniformValue>(tables, coded);
}
inline void DecodeSign(const Codec& codec, const CodedGroups& coded) {
  const LevelTables tables(codec);
  if (codec.metadata == Metadata::kSides) return DecodeRounded<SidesValue>(tables, coded);
  codec.spacing != Spacing::kEven ? DecodeGroups<FittedSignValue, DitherOffsets>(tables, coded)
                                  : DecodeRounded<SignValue>(tables, coded);
}
inline void DecodeZero(const Codec& codec, const CodedGroups& coded) {
  const LevelTables tables(codec);
  codec.spacing != Spacing::kEven
      ? DecodeGroups<ZeroOrValue<FittedUniformValue>, DitherOffsets>(tables, coded)
      : DecodeRounded<ZeroOrValue<UniformValue>>(tables, coded);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVEL_DECODE_INL_H_
