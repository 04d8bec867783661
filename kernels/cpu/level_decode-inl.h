// Decodes codes with levels, a tile at a time: kernels/math/level_code.h in vectors. Included once
// per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_LEVEL_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_LEVEL_DECODE_INL_H_
#undef ACT_LEVEL_DECODE_INL_H_
#else
#define ACT_LEVEL_DECODE_INL_H_
#endif

#include "kernels/cpu/code_tile.h"
#include "kernels/cpu/level_values-inl.h"
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

// Positions (256 times the code, with the rounding's offset) of as many elements as a vector has
// 16-bit lanes.
struct Positions {
  // second: used only if there are twice as many 16-bit lanes
  VI first, second;
};
inline constexpr bool kTwoVectors = HWY_TARGET != HWY_SCALAR;
static_assert(kMaxWordLanes == (kTwoVectors ? 2 : 1) * kMaxLanes);

// With fewer than 8 bits, positions fit 16 bits with their sign. With 8 bits, `from` is 127, which
// makes positions positive.
template <int kBits>
constexpr uint16_t kFrom = kBits < 8 ? 0 : 127;
template <int kBits>
HWY_INLINE VI Widen(hn::VFromD<hn::Rebind<uint16_t, D>> p) {
  const hn::Rebind<int16_t, D> d;
  if constexpr (kBits < 8) return hn::PromoteTo(DI(), hn::BitCast(d, p));
  return hn::Sub(hn::PromoteTo(DI(), p), hn::Set(DI(), int32_t{kFrom<kBits>}));
}
template <int kBits>
HWY_INLINE Positions Widened(VW p) {
#if HWY_TARGET == HWY_SCALAR
  const VI only = Widen<kBits>(p);
  return {only, only};
#else
  const hn::Rebind<uint16_t, D> d;
  return {Widen<kBits>(hn::LowerHalf(d, p)), Widen<kBits>(hn::UpperHalf(d, p))};
#endif
}

// An epilogue in the form that vectors need. A single number is stored in `lanes` and read
// repeatedly.
class Epilogue {
 public:
  explicit Epilogue(const DecodeEpilogue& e)
      : changes_(e.Changes()),
        bits_(hn::Set(DU(), e.magnitude ? 0x7FFFFFFFu : ~0u)),
        keeps_(e.keep_positive) {
    Place(e.times, 1.0f, 0);
    Place(e.plus, -0.0f, 1);  // only -0 leaves -0 unchanged
  }
  bool Changes() const { return changes_; }

  // Applies the epilogue to `value` at a position, which belongs to element i of the tile.
  template <class Value>
  HWY_INLINE V Of(const Value& value, VI position, size_t i) const {
    const D d;
    return Finish(value, position, hn::LoadU(d, At(0, i)), hn::LoadU(d, At(1, i)));
  }
  template <class Value>
  HWY_INLINE V OfTail(const Value& value, VI position, size_t i, Mask rest) const {
    const D d;
    return Finish(value, position, hn::MaskedLoad(rest, d, At(0, i)), hn::MaskedLoad(rest, d, At(1, i)));
  }

 private:
  void Place(const TileOperand& o, float otherwise, size_t slot) {
    const bool one = !o.data || o.splat;
    hn::Store(hn::Set(D(), o.data ? *o.data : otherwise), D(), lanes_[slot]);
    from_[slot] = one ? lanes_[slot] : o.data;
    stride_[slot] = one ? 0 : 1;
  }
  HWY_INLINE const float* At(size_t slot, size_t i) const { return from_[slot] + i * stride_[slot]; }
  template <class Value>
  HWY_INLINE V Finish(const Value& value, VI position, V times, V plus) const {
    const V v = hn::BitCast(D(), hn::And(hn::BitCast(DU(), value(position)), bits_));
    const V scaled = hn::MulAdd(v, times, plus);
    if constexpr (requires { value.Positive(position); }) {
      if (keeps_) return hn::Mul(scaled, hn::IfThenElseZero(value.Positive(position), hn::Set(D(), 1.0f)));
    }
    return scaled;
  }

  alignas(64) float lanes_[2][kMaxLanes];
  const float* from_[2];
  size_t stride_[2];
  const bool changes_;
  const VU bits_;
  const bool keeps_;
};

// x[i] = value of element i, with the epilogue. positions(i) returns the positions from i on, and
// is called in order. `first` is the tile's element that is element 0 here.
template <class PositionsOf, class Value>
HWY_INLINE void DecodeRun(const PositionsOf& positions, size_t count, const Value& value,
                          const Epilogue& epilogue, size_t first, float* x) {
  const D d;
  const size_t lanes = hn::Lanes(d), step = kTwoVectors ? 2 * lanes : lanes;
  size_t i = 0;
  if (epilogue.Changes()) {
    for (; i + step <= count; i += step) {
      const Positions p = positions(i);
      hn::StoreU(epilogue.Of(value, p.first, first + i), d, x + i);
      if constexpr (kTwoVectors)
        hn::StoreU(epilogue.Of(value, p.second, first + i + lanes), d, x + i + lanes);
    }
  } else {
    for (; i + step <= count; i += step) {
      const Positions p = positions(i);
      hn::StoreU(value(p.first), d, x + i);
      if constexpr (kTwoVectors) hn::StoreU(value(p.second), d, x + i + lanes);
    }
  }
  if (i == count) return;
  const Positions p = positions(i);
  for (const VI part : {p.first, p.second}) {
    const Mask rest = hn::FirstN(d, count - i);
    const V v = epilogue.Changes() ? epilogue.OfTail(value, part, first + i, rest) : value(part);
    hn::BlendedStore(v, rest, d, x + i);
    i += lanes;
    if (i >= count) return;
  }
}

// ---- Bit planes

// Decodes one group. Planes are plane_bytes apart and readable a vector at a time.
template <int kBits, class Value, class Offsets>
HWY_INLINE void DecodePlanes(const uint8_t* planes, size_t plane_bytes, size_t count, const Value& value,
                             Offsets offsets, const Epilogue& epilogue, size_t first, float* x) {
  const DW d;
  const auto positions = [&](size_t i) HWY_ATTR {
    VW p = offsets.Next(hn::Set(d, kFrom<kBits>));
    for (int b = 0; b < kBits; ++b) {
      const auto bit = LoadMask(planes + static_cast<size_t>(b) * plane_bytes, i);
      p = hn::IfThenElse(bit, hn::Add(p, hn::Set(d, static_cast<uint16_t>(256u << b))), p);
    }
    return Widened<kBits>(p);
  };
  DecodeRun(positions, count, value, epilogue, first, x + first);
}

template <int kBits, class Value, class Offsets>
void DecodePlaneGroups(const LevelTables& tables, const CodedGroups& coded) {
  const Epilogue epilogue(coded.epilogue);
  const uint8_t* planes = coded.payload;
  for (size_t g = 0, e = 0; e < coded.count; ++g, e += coded.group, planes += coded.group_bytes) {
    const Value value(tables, coded.scales[g]);
    const Offsets offsets(coded.starts[g]);
    if (e + coded.group <= coded.count) {
      DecodePlanes<kBits>(planes, coded.group / 8, coded.group, value, offsets, epilogue, e, coded.x);
      continue;
    }
    // The planes of a short group are copied to memory that a vector may read past their end.
    const size_t count = coded.count - e;
    const PaddedPlanes padded(planes, (count + 7) / 8, kBits);
    DecodePlanes<kBits>(padded.bytes, PaddedPlanes::kPlaneBytes, count, value, offsets, epilogue, e, coded.x);
  }
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
    Offsets offsets(coded.starts[g]);
    const auto positions = [&](size_t i) HWY_ATTR {
      const VW code = hn::PromoteTo(d, hn::LoadU(DWBytes(), q + i));
      return Widened<8>(hn::Add(hn::ShiftLeft<8>(code), offsets.Next(hn::Set(d, kFrom<8>))));
    };
    DecodeRun(positions, count, Value(tables, coded.scales[g]), epilogue, e, coded.x + e);
  }
}

// ---- Tiles

template <class Value, class Offsets>
void DecodeGroups(const LevelTables& tables, const CodedGroups& coded) {
  if (coded.packing.codes != 1) return DecodeWordGroups<Value, Offsets>(tables, coded);
  switch (coded.packing.bits) {
    case 1:
      return DecodePlaneGroups<1, Value, Offsets>(tables, coded);
    case 2:
      return DecodePlaneGroups<2, Value, Offsets>(tables, coded);
    case 3:
      return DecodePlaneGroups<3, Value, Offsets>(tables, coded);
    case 4:
      return DecodePlaneGroups<4, Value, Offsets>(tables, coded);
    case 5:
      return DecodePlaneGroups<5, Value, Offsets>(tables, coded);
    case 6:
      return DecodePlaneGroups<6, Value, Offsets>(tables, coded);
    case 7:
      return DecodePlaneGroups<7, Value, Offsets>(tables, coded);
    default:
      return DecodePlaneGroups<8, Value, Offsets>(tables, coded);
  }
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
  DecodeGroups<NumberValue, NoOffsets>(LevelTables(codec), coded);
}
// 1 where an element is greater than 0, for kinds that hold this.
inline void DecodeMasks(const Codec& codec, const CodedGroups& coded) {
  DecodeGroups<MaskValue, NoOffsets>(LevelTables(codec), coded);
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
