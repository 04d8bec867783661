// Decodes codes of even levels where no vector has more than 8 floats (AVX2): four vectors of elements at a time, whose
// codes are the bytes of one vector. With masks of 16 lanes the 16-bit form (decode_run-inl.h) is as short. Included
// once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_CODE_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_CODE_BYTES_INL_H_
#undef ACT_CODE_BYTES_INL_H_
#else
#define ACT_CODE_BYTES_INL_H_
#endif

#include <array>
#include <cstring>

#include "kernels/cpu/code_bytes.h"
#include "kernels/cpu/decode_run-inl.h"
#include "kernels/cpu/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// Decodes one group, of bit planes or of codes that are a byte each. `first` is the tile's element that is element 0 of
// it, and x the tile.
template <int kBits, class Offsets, class Value>
void DecodePlaneBytes(const uint8_t* planes, size_t plane_bytes, size_t count, const LevelTables& tables,
                      const Value& value, uint32_t start, const Epilogue& epilogue, size_t first, float* x);
template <class Offsets, class Value>
void DecodeUnpackedBytes(const uint8_t* codes, size_t count, const LevelTables& tables, const Value& value,
                         uint32_t start, const Epilogue& epilogue, size_t first, float* x);

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_AVX3
template <class Value>
constexpr bool kCodesAreBytes = false;
#else
// Values that are computed from positions in float32, which is exact.
template <class Value>
constexpr bool kCodesAreBytes = std::is_same_v<typename Value::Position, V>;
static_assert(kMaxLanes <= 8);

inline constexpr size_t kFour = 4 * kMaxLanes;  // elements, and bytes of a vector

template <class T, class Entry>
constexpr std::array<T, kFour> TableOf(const Entry& entry) {
  std::array<T, kFour> table = {};
  for (size_t i = 0; i < kFour; ++i) table[i] = static_cast<T>(entry(i));
  return table;
}
alignas(64) inline constexpr auto kByteOfElement = TableOf<uint8_t>([](size_t j) {
  return ElementOfByte(j, kMaxLanes) / 8;
});
alignas(64) inline constexpr auto kBitOfElement = TableOf<uint8_t>([](size_t j) {
  return 1 << ElementOfByte(j, kMaxLanes) % 8;
});
// Of the first and the second vector's words, of which each 16 bytes have 8.
alignas(64) inline constexpr auto kTurnOfWord = TableOf<uint16_t>([](size_t k) {
  return ElementOfByte(k / 8 * 16 + k % 8, kMaxLanes) * kWeylStep;
});

// The codes of four vectors from element i on, in bit planes that are plane_bytes apart.
template <int kBits>
struct PlaneCodes {
  const uint8_t* planes;
  size_t plane_bytes;

  HWY_INLINE VB operator()(size_t i) const {
    const DB d;
    const VB bit = hn::Load(d, kBitOfElement.data()), byte = hn::Load(d, kByteOfElement.data());
    VB codes = hn::Zero(d);
    for (int b = 0; b < kBits; ++b) {
      uint32_t word = 0;
      std::memcpy(&word, planes + static_cast<size_t>(b) * plane_bytes + i / 8, kFour / 8);
      const VB bits =
          hn::TableLookupBytes(hn::BitCast(d, hn::Set(hn::Repartition<uint32_t, DB>(), word)), byte);
      const VB level = hn::Set(d, static_cast<uint8_t>(1 << b));
      codes = hn::Or(codes, hn::And(hn::VecFromMask(d, hn::TestBit(bits, bit)), level));
    }
    return codes;
  }
};

// The codes of four vectors from element i on, a byte each.
struct UnpackedCodes {
  const uint8_t* codes;

  HWY_INLINE VB operator()(size_t i) const {
    const hn::Repartition<uint32_t, DB> d;
    alignas(64) static constexpr auto kOrder =
        TableOf<uint32_t>([](size_t k) { return ElementOfByte(4 * k % kFour, kMaxLanes) / 4; });
    const auto words = hn::BitCast(d, hn::LoadU(DB(), codes + i));
    return hn::BitCast(DB(), hn::TableLookupLanes(words, hn::SetTableIndices(d, kOrder.data())));
  }
};

// What decode adds to 256 times a code, plus 128: the lower bytes of positions, but for their lowest bits.
template <class Offsets>
struct OffsetWords;
template <>
struct OffsetWords<NoOffsets> {
  static constexpr uint8_t kLowest = 128;
  explicit HWY_INLINE OffsetWords(uint32_t) {}
  HWY_INLINE VW First() const { return hn::Zero(DW()); }
  HWY_INLINE VW Second() const { return hn::Zero(DW()); }
  HWY_INLINE void Advance() {}
};
// With t = 0xFFFF - w it is t >> 8 with the lowest bit set (DitherOffsets).
template <>
struct OffsetWords<DitherOffsets> {
  static constexpr uint8_t kLowest = 1;
  explicit HWY_INLINE OffsetWords(uint32_t start)
      : turned(hn::Sub(hn::Set(DW(), static_cast<uint16_t>(0xFFFF - start)),
                       hn::Load(DW(), kTurnOfWord.data()))) {}
  HWY_INLINE VW First() const { return hn::ShiftRight<8>(turned); }
  HWY_INLINE VW Second() const { return hn::ShiftRight<8>(hn::Sub(turned, Turn(kFour / 2))); }
  HWY_INLINE void Advance() { turned = hn::Sub(turned, Turn(kFour)); }
  static HWY_INLINE VW Turn(size_t elements) {
    return hn::Set(DW(), static_cast<uint16_t>(elements * kWeylStep));
  }
  VW turned;
};

// Values of four vectors, and which of them are of the second kind (level_values-inl.h).
struct FourValues {
  V value[4];
  Mask other[4];
};

// With the exponent of 2^23 above it, a position plus 128 is 2^23 + 128 plus the position: all of it is exact.
template <class Value, class Offsets>
HWY_INLINE FourValues ValuesOfCodes(const LevelTables& tables, const Value& value, VB codes,
                                    const OffsetWords<Offsets>& offsets) {
  const D d;
  const DB db;
  const DW dw;
  const auto words = [&](VB low, VB high, auto upper) HWY_ATTR {
    return hn::BitCast(dw, upper() ? hn::InterleaveUpper(db, low, high) : hn::InterleaveLower(db, low, high));
  };
  const auto numbers = [&](VW low, VW high, auto upper) HWY_ATTR {
    return hn::BitCast(d, upper() ? hn::InterleaveUpper(dw, low, high) : hn::InterleaveLower(dw, low, high));
  };
  constexpr std::false_type kLower;
  constexpr std::true_type kUpper;
  FourValues four;
  constexpr bool kKinds = HasKinds<Value, 8>;
  if constexpr (kKinds) {
    const VB other = typename Value::template Kinds<0>(tables).SplitCodes(codes);
    const VW first = words(other, other, kLower), second = words(other, other, kUpper);
    four.other[0] = hn::MaskFromVec(numbers(first, first, kLower));
    four.other[1] = hn::MaskFromVec(numbers(first, first, kUpper));
    four.other[2] = hn::MaskFromVec(numbers(second, second, kLower));
    four.other[3] = hn::MaskFromVec(numbers(second, second, kUpper));
  } else {
    for (Mask& other : four.other) other = hn::FirstN(d, 0);
  }
  const VB lowest = hn::Set(db, OffsetWords<Offsets>::kLowest);
  const VW first = hn::Or(words(lowest, codes, kLower), offsets.First());
  const VW second = hn::Or(words(lowest, codes, kUpper), offsets.Second());
  const VW exponent = hn::Set(dw, uint16_t{0x4B00});
  const V zero = hn::Set(d, 0x1p23f + 128);
  const V positions[4] = {numbers(first, exponent, kLower), numbers(first, exponent, kUpper),
                          numbers(second, exponent, kLower), numbers(second, exponent, kUpper)};
  for (size_t v = 0; v < 4; ++v) {
    if constexpr (kKinds)
      four.value[v] = value(hn::Sub(positions[v], zero), four.other[v]);
    else
      four.value[v] = value(hn::Sub(positions[v], zero));
  }
  return four;
}

// x[i] = value of element i of the group, with the epilogue.
template <Finish kFinish, class Codes, class Value, class Offsets>
HWY_INLINE void DecodeBytesAs(const Codes& codes, size_t count, const LevelTables& tables, const Value& value,
                              OffsetWords<Offsets> offsets, const Epilogue& epilogue, size_t first,
                              float* x) {
  const D d;
  Finisher<kFinish> finisher(epilogue, first);
  size_t i = 0;
  for (; i + kFour <= count; i += kFour) {
    const FourValues four = ValuesOfCodes<Value, Offsets>(tables, value, codes(i), offsets);
    for (size_t v = 0; v < 4; ++v)
      hn::StoreU(finisher.Next(four.value[v], four.other[v]), d, x + i + v * kMaxLanes);
    offsets.Advance();
  }
  if (i == count) return;
  const FourValues four = ValuesOfCodes<Value, Offsets>(tables, value, codes(i), offsets);
  for (size_t v = 0; i < count; ++v, i += kMaxLanes) {
    if (i + kMaxLanes > count) return finisher.Last(four.value[v], four.other[v], count - i, x + i);
    hn::StoreU(finisher.Next(four.value[v], four.other[v]), d, x + i);
  }
}

template <int kBits, class Offsets, class Value>
void DecodePlaneBytes(const uint8_t* planes, size_t plane_bytes, size_t count, const LevelTables& tables,
                      const Value& value, uint32_t start, const Epilogue& epilogue, size_t first, float* x) {
  ForFinish<Value>(epilogue, [&](auto finish) HWY_ATTR {
    DecodeBytesAs<decltype(finish)::value>(PlaneCodes<kBits>{planes, plane_bytes}, count, tables, value,
                                           OffsetWords<Offsets>(start), epilogue, first, x + first);
  });
}
template <class Offsets, class Value>
void DecodeUnpackedBytes(const uint8_t* codes, size_t count, const LevelTables& tables, const Value& value,
                         uint32_t start, const Epilogue& epilogue, size_t first, float* x) {
  ForFinish<Value>(epilogue, [&](auto finish) HWY_ATTR {
    DecodeBytesAs<decltype(finish)::value>(UnpackedCodes{codes}, count, tables, value,
                                           OffsetWords<Offsets>(start), epilogue, first, x + first);
  });
}
#endif

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_CODE_BYTES_INL_H_
