#include "kernels/reference/codec.h"

#include <algorithm>
#include <cstring>

#include "kernels/math/level_code.h"
#include "kernels/math/rounding.h"
#include "kernels/math/small_code.h"
#include "kernels/math/small_float.h"
#include "runtime/codec/plugin.h"

namespace act {
namespace {

// One group of a sample's code.
struct Group {
  int64_t first;     // element
  int64_t count;     // elements
  int64_t metadata;  // bytes from the sample's start
  int64_t payload;   // bytes from the sample's start
};

Group GroupOf(const Codec& codec, const CodeLayout& layout, int64_t g) {
  const int64_t first = g * codec.group_size;
  const int64_t count = std::min<int64_t>(codec.group_size, layout.elements - first);
  return {first, count, g * layout.metadata_bytes, layout.payload_offset + g * layout.group_bytes};
}

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

// The bits with which element e of the sample, element i of group g, is rounded.
uint32_t RoundingBits(const Codec& codec, const RandomStream& random, int64_t sample,
                      const CodeLayout& layout, int64_t g, int64_t i) {
  switch (codec.rounding) {
    case Rounding::kStochastic:
      return Random16(random, sample, layout.elements, g * codec.group_size + i);
    case Rounding::kDither:
      return DitherBits(DitherStart(random, sample, layout.groups, g), i);
    case Rounding::kNearest:
      break;
  }
  return kNearestBits;
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

uint32_t CodeAt(const Codec& codec, const Group& group, const uint8_t* code, int64_t i) {
  const Digit digit = DigitOf(codec, group.count, i);
  const uint32_t number = NumberAt(codec, digit, code + group.payload);
  return CodePackingOf(codec).codes == 1 ? number
                                         : number / digit.weight % static_cast<uint32_t>(codec.levels);
}

// Adds code i to a payload, whose bits there must be 0.
void PutCode(const Codec& codec, const Group& group, uint32_t q, int64_t i, uint8_t* code) {
  const Digit digit = DigitOf(codec, group.count, i);
  uint8_t* payload = code + group.payload;
  const uint32_t number = NumberAt(codec, digit, payload) + q * digit.weight;
  for (int b = 0; b < CodePackingOf(codec).bits; ++b) {
    const int64_t at = BitPlace(codec, digit, b);
    payload[at / 8] &= static_cast<uint8_t>(~(1u << (at % 8)));
    payload[at / 8] |= static_cast<uint8_t>((number >> b & 1) << (at % 8));
  }
}

act_codec_key KeyOf(const RandomStream& random, int64_t sample, const CodeLayout& layout, int64_t g) {
  return {random.seed, random.step, static_cast<uint64_t>(sample * layout.groups + g), random.stream};
}

void EncodeLevels(const Codec& codec, const RandomStream& random, int64_t sample, const CodeLayout& layout,
                  int64_t g, const float* x, uint8_t* code) {
  const Group group = GroupOf(codec, layout, g);
  StoreGroupScale(codec, RangeOf(codec, x + group.first, group.count), code + group.metadata);
  const GroupScale scale = LoadGroupScale(codec, code + group.metadata);
  if (!IsFinite(scale)) return;
  const FittedPair fitted = FittedLevelsOf(codec);
  for (int64_t i = 0; i < group.count; ++i) {
    const uint32_t bits = RoundingBits(codec, random, sample, layout, g, i);
    PutCode(codec, group, QuantizeLevel(codec, x[group.first + i], scale, fitted, bits), i, code);
  }
}

void DecodeLevels(const Codec& codec, const RandomStream& random, int64_t sample, const CodeLayout& layout,
                  int64_t g, const uint8_t* code, float* x) {
  const Group group = GroupOf(codec, layout, g);
  const GroupScale scale = LoadGroupScale(codec, code + group.metadata);
  const FittedPair fitted = FittedLevelsOf(codec);
  for (int64_t i = 0; i < group.count; ++i) {
    const bool dither = codec.rounding == Rounding::kDither;
    const int32_t offset = dither ? DitherOffset(RoundingBits(codec, random, sample, layout, g, i)) : 0;
    x[group.first + i] = DequantizeLevel(codec, CodeAt(codec, group, code, i), scale, fitted, offset);
  }
}

}  // namespace

void EncodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const float* x, uint8_t* code) {
  const CodeLayout layout = LayoutOf(codec, elements);
  std::fill_n(code, layout.sample_bytes, uint8_t{0});
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    const auto each = [&](const auto& encode) {
      for (int64_t i = 0; i < group.count; ++i) encode(x[group.first + i], i);
    };
    switch (codec.kind) {
      case CodecKind::kNone:
        break;
      case CodecKind::kMask:
        each([&](float e, int64_t i) { PutCode(codec, group, EncodeMask(e), i, code); });
        break;
      case CodecKind::kIndex:
        each([&](float e, int64_t i) { PutCode(codec, group, EncodeIndex(e, codec.bits), i, code); });
        break;
      case CodecKind::kUniform:
      case CodecKind::kSign:
      case CodecKind::kZero:
        EncodeLevels(codec, random, sample, layout, g, x, code);
        break;
      case CodecKind::kFloat16:
      case CodecKind::kBFloat16:
      case CodecKind::kFloat8E4M3:
      case CodecKind::kFloat8E5M2: {
        const SmallFloat format = FormatOf(codec.kind);
        each([&](float e, int64_t i) {
          PutSmallFloat(format, EncodeSmallFloat(format, e), i, code + group.payload);
        });
        break;
      }
      case CodecKind::kPlugin:
        EncodePluginGroup(codec, KeyOf(random, sample, layout, g), x + group.first, group.count,
                          code + group.metadata, code + group.payload);
        break;
    }
  }
}

void DecodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    switch (codec.kind) {
      case CodecKind::kNone:
        break;
      case CodecKind::kMask:
      case CodecKind::kIndex:
        for (int64_t i = 0; i < group.count; ++i)
          x[group.first + i] = static_cast<float>(CodeAt(codec, group, code, i));
        break;
      case CodecKind::kUniform:
      case CodecKind::kSign:
      case CodecKind::kZero:
        DecodeLevels(codec, random, sample, layout, g, code, x);
        break;
      case CodecKind::kFloat16:
      case CodecKind::kBFloat16:
      case CodecKind::kFloat8E4M3:
      case CodecKind::kFloat8E5M2: {
        const SmallFloat format = FormatOf(codec.kind);
        for (int64_t i = 0; i < group.count; ++i)
          x[group.first + i] = DecodeSmallFloat(format, SmallFloatAt(format, code + group.payload, i));
        break;
      }
      case CodecKind::kPlugin:
        DecodePluginGroup(codec, KeyOf(random, sample, layout, g), code + group.metadata,
                          code + group.payload, group.count, x + group.first);
        break;
    }
  }
}

void DecodeMaskReference(const Codec& codec, int64_t elements, const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  const auto above = static_cast<uint32_t>(codec.LevelsAbove());
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    for (int64_t i = 0; i < group.count; ++i) {
      const uint32_t q = CodeAt(codec, group, code, i);
      x[group.first + i] = (codec.kind == CodecKind::kSign ? q < above : q != 0) ? 1.0f : 0.0f;
    }
  }
}

}  // namespace act
