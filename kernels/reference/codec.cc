#include "kernels/reference/codec.h"

#include <algorithm>
#include <cstring>

#include "kernels/math/level_code.h"
#include "kernels/math/rounding.h"
#include "kernels/math/small_code.h"
#include "kernels/math/small_float.h"
#include "runtime/codec/group_code.h"

namespace act {
namespace {

// The range of all elements or, for kZero, of those that are not 0.
GroupRange RangeOf(const Codec& codec, const float* x, int64_t count) {
  GroupRange range;
  bool first = true, none_below = true;
  for (int64_t i = 0; i < count; ++i) {
    if (codec.kind == CodecKind::kZero && x[i] == 0) continue;
    range.lowest = first ? x[i] : std::min(range.lowest, x[i]);
    range.highest = first ? x[i] : std::max(range.highest, x[i]);
    if (x[i] > 0) {
      range.least_above = range.least_above > 0 ? std::min(range.least_above, x[i]) : x[i];
    } else {
      range.most_below = none_below ? x[i] : std::max(range.most_below, x[i]);
      none_below = false;
    }
    range.largest_bits = std::max(range.largest_bits, BitsOf(x[i]) & 0x7FFFFFFFu);
    first = false;
  }
  return range;
}

// Where the bits of a code are in its group's payload. The code is a digit of a number.
struct Digit {
  int64_t number, numbers;  // the number, and how many there are in the group
  uint32_t weight;          // of the digit: levels^place
};
Digit DigitOf(const Codec& codec, int64_t count, int64_t i) {
  const int64_t numbers = (count + CodePackingOf(codec).codes - 1) / CodePackingOf(codec).codes;
  Digit digit{i % numbers, numbers, 1};
  for (int64_t place = i / numbers; place > 0; --place) digit.weight *= static_cast<uint32_t>(codec.levels);
  return digit;
}
int64_t BitPlace(const Codec& codec, const Digit& digit, int bit) {
  // If each number is one code, planes begin at whole bytes.
  const int64_t plane = CodePackingOf(codec).codes == 1 ? (digit.numbers + 7) / 8 * 8 : digit.numbers;
  return bit * plane + digit.number;
}

uint32_t NumberAt(const Codec& codec, const Digit& digit, const uint8_t* payload) {
  uint32_t number = 0;
  for (int b = 0; b < CodePackingOf(codec).bits; ++b) {
    const int64_t at = BitPlace(codec, digit, b);
    number |= static_cast<uint32_t>(payload[at / 8] >> (at % 8) & 1) << b;
  }
  return number;
}

uint32_t CodeAt(const Codec& codec, const GroupPlace& group, const uint8_t* code, int64_t i) {
  const Digit digit = DigitOf(codec, group.count, i);
  const uint32_t number = NumberAt(codec, digit, code + group.payload);
  return CodePackingOf(codec).codes == 1 ? number
                                         : number / digit.weight % static_cast<uint32_t>(codec.levels);
}

// Adds code i to a payload, whose bits there must be 0.
void PutCode(const Codec& codec, const GroupPlace& group, uint32_t q, int64_t i, uint8_t* code) {
  const Digit digit = DigitOf(codec, group.count, i);
  uint8_t* payload = code + group.payload;
  const uint32_t number = NumberAt(codec, digit, payload) + q * digit.weight;
  for (int b = 0; b < CodePackingOf(codec).bits; ++b) {
    const int64_t at = BitPlace(codec, digit, b);
    payload[at / 8] &= static_cast<uint8_t>(~(1u << (at % 8)));
    payload[at / 8] |= static_cast<uint8_t>((number >> b & 1) << (at % 8));
  }
}

// The tensor's sample that a group belongs to, and what its random numbers are drawn for.
struct Sample {
  const Codec& codec;
  const CodeLayout& layout;
  const RandomStream& random;
  int64_t number;

  GroupKey KeyOf(const GroupPlace& group) const { return KeyOfGroup(random, number, layout, group); }
  // The bits with which element i of a group is rounded.
  uint32_t RoundingBits(const GroupPlace& group, int64_t i) const {
    switch (codec.rounding) {
      case Rounding::kStochastic:
        return Random16(random, number, layout.elements, group.first + i);
      case Rounding::kDither:
        return DitherBits(DitherStart(random, number, layout.groups, group.number), i);
      case Rounding::kNearest:
        break;
    }
    return kNearestBits;
  }
};

// x: the group's elements. code: the sample's.
void EncodeLevels(const Sample& sample, const GroupPlace& group, const float* x, uint8_t* code) {
  const Codec& codec = sample.codec;
  StoreGroupScale(codec, RangeOf(codec, x, group.count), code + group.metadata);
  const GroupScale scale = LoadGroupScale(codec, code + group.metadata);
  if (!IsFinite(scale)) return;
  const FittedPair fitted = FittedLevelsOf(codec);
  for (int64_t i = 0; i < group.count; ++i)
    PutCode(codec, group, QuantizeLevel(codec, x[i], scale, fitted, sample.RoundingBits(group, i)), i, code);
}

void DecodeLevels(const Sample& sample, const GroupPlace& group, const uint8_t* code, float* x) {
  const Codec& codec = sample.codec;
  const GroupScale scale = LoadGroupScale(codec, code + group.metadata);
  const FittedPair fitted = FittedLevelsOf(codec);
  for (int64_t i = 0; i < group.count; ++i) {
    const bool dither = codec.rounding == Rounding::kDither;
    const int32_t offset = dither ? DitherOffset(sample.RoundingBits(group, i)) : 0;
    x[i] = DequantizeLevel(codec, CodeAt(codec, group, code, i), scale, fitted, offset);
  }
}

// In a code that is 0.
void EncodeGroup(const Sample& sample, const GroupPlace& group, const float* x, uint8_t* code) {
  const Codec& codec = sample.codec;
  const auto each = [&](const auto& encode) {
    for (int64_t i = 0; i < group.count; ++i) encode(x[i], i);
  };
  switch (codec.kind) {
    case CodecKind::kNone:
      return;
    case CodecKind::kMask:
      return each([&](float e, int64_t i) { PutCode(codec, group, EncodeMask(e), i, code); });
    case CodecKind::kIndex:
      return each([&](float e, int64_t i) { PutCode(codec, group, EncodeIndex(e, codec.bits), i, code); });
    case CodecKind::kUniform:
    case CodecKind::kSign:
    case CodecKind::kZero:
      return EncodeLevels(sample, group, x, code);
    case CodecKind::kCast:
      return each([&](float e, int64_t i) {
        PutSmallFloat(codec.cast, EncodeSmallFloat(codec.cast, e), i, code + group.payload);
      });
    case CodecKind::kGroups:
      return codec.groups->encode(codec, sample.KeyOf(group), x, group.count, code + group.metadata,
                                  code + group.payload);
  }
}

void DecodeGroup(const Sample& sample, const GroupPlace& group, const uint8_t* code, float* x) {
  const Codec& codec = sample.codec;
  const auto each = [&](const auto& decode) {
    for (int64_t i = 0; i < group.count; ++i) x[i] = decode(i);
  };
  switch (codec.kind) {
    case CodecKind::kNone:
      return;
    case CodecKind::kMask:
    case CodecKind::kIndex:
      return each([&](int64_t i) { return static_cast<float>(CodeAt(codec, group, code, i)); });
    case CodecKind::kUniform:
    case CodecKind::kSign:
    case CodecKind::kZero:
      return DecodeLevels(sample, group, code, x);
    case CodecKind::kCast:
      return each([&](int64_t i) {
        return DecodeSmallFloat(codec.cast, SmallFloatAt(codec.cast, code + group.payload, i));
      });
    case CodecKind::kGroups:
      return codec.groups->decode(codec, sample.KeyOf(group), code + group.metadata, code + group.payload,
                                  group.count, x);
  }
}

}  // namespace

void EncodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const float* x, uint8_t* code) {
  const CodeLayout layout = LayoutOf(codec, elements);
  std::fill_n(code, layout.sample_bytes, uint8_t{0});
  for (int64_t g = 0; g < layout.groups; ++g) {
    const GroupPlace group = PlaceOfGroup(codec, layout, g);
    EncodeGroup({codec, layout, random, sample}, group, x + group.first, code);
  }
}

void DecodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const GroupPlace group = PlaceOfGroup(codec, layout, g);
    DecodeGroup({codec, layout, random, sample}, group, code, x + group.first);
  }
}

void DecodeMaskReference(const Codec& codec, int64_t elements, const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  const auto above = static_cast<uint32_t>(codec.LevelsAbove());
  for (int64_t g = 0; g < layout.groups; ++g) {
    const GroupPlace group = PlaceOfGroup(codec, layout, g);
    for (int64_t i = 0; i < group.count; ++i) {
      const uint32_t q = CodeAt(codec, group, code, i);
      x[group.first + i] = (codec.kind == CodecKind::kSign ? q < above : q != 0) ? 1.0f : 0.0f;
    }
  }
}

}  // namespace act
