#include "kernels/reference/codec.h"

#include <algorithm>
#include <cstring>

#include "kernels/math/level_code.h"
#include "kernels/math/rounding.h"
#include "kernels/math/small_code.h"

namespace act {
namespace {

// One group of a sample's code.
struct Group {
  int64_t first;        // element
  int64_t count;        // elements
  int64_t metadata;     // bytes from the sample's start
  int64_t payload;      // bytes from the sample's start
  int64_t plane_bytes;  // of each bit plane
};

Group GroupOf(const Codec& codec, const CodeLayout& layout, int64_t g) {
  const int64_t first = g * codec.group_size;
  const int64_t count = std::min<int64_t>(codec.group_size, layout.elements - first);
  return {first, count, g * layout.metadata_bytes, layout.payload_offset + g * layout.group_bytes,
          (count + 7) / 8};
}

// What a group's scale is made from: of all elements, or of those that are not 0.
struct Range {
  float lowest = 0, highest = 0;
  uint32_t largest_bits = 0;
};

Range RangeOf(const float* x, int64_t count, bool zeros) {
  Range range;
  bool first = true;
  for (int64_t i = 0; i < count; ++i) {
    if (!zeros && x[i] == 0) continue;
    range.lowest = first ? x[i] : std::min(range.lowest, x[i]);
    range.highest = first ? x[i] : std::max(range.highest, x[i]);
    range.largest_bits = std::max(range.largest_bits, BitsOf(x[i]) & 0x7FFFFFFFu);
    first = false;
  }
  return range;
}

// The two numbers of a group's metadata, in whichever meaning the codec gives them.
struct Scales {
  UniformScale uniform;
  SignScale sign;
};

Scales MakeScales(const Codec& codec, const float* x, int64_t count) {
  const Range range = RangeOf(x, count, codec.kind != CodecKind::kZero);
  Scales scales;
  if (codec.kind == CodecKind::kSign) {
    scales.sign = MakeSignScale(range.lowest, range.highest, range.largest_bits, codec.levels - codec.below,
                                codec.below);
  } else {
    const int levels = codec.kind == CodecKind::kZero ? codec.levels - 1 : codec.levels;
    scales.uniform = MakeUniformScale(range.lowest, range.highest, range.largest_bits, levels);
  }
  return scales;
}

Scales LoadScales(const Codec& codec, const uint8_t* metadata) {
  uint16_t stored[2];
  std::memcpy(stored, metadata, 4);
  Scales scales;
  if (codec.kind == CodecKind::kSign) {
    scales.sign = LoadSignScale(stored[0], stored[1]);
  } else {
    scales.uniform = LoadUniformScale(stored[0], stored[1]);
  }
  return scales;
}

void StoreScales(const Codec& codec, const Scales& scales, uint8_t* metadata) {
  const bool sign = codec.kind == CodecKind::kSign;
  const uint16_t stored[2] = {sign ? scales.sign.above_bf16 : scales.uniform.minimum_bf16,
                              sign ? scales.sign.below_bf16 : scales.uniform.scale_bf16};
  std::memcpy(metadata, stored, 4);
}

// The bits that element e of the sample, element i of group g, is rounded with.
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

uint32_t Quantize(const Codec& codec, const Scales& scales, float x, uint32_t u16) {
  if (codec.kind == CodecKind::kSign) return QuantizeSign(x, scales.sign, codec.levels - codec.below, u16);
  if (codec.kind == CodecKind::kZero) return QuantizeZero(x, scales.uniform, u16);
  return QuantizeUniform(x, scales.uniform, u16);
}

float Dequantize(const Codec& codec, const Scales& scales, uint32_t q, int32_t offset) {
  if (codec.kind == CodecKind::kSign)
    return DequantizeSign(q, scales.sign, codec.levels - codec.below, offset);
  if (codec.kind == CodecKind::kZero) return DequantizeZero(q, scales.uniform, offset);
  return DequantizeUniform(q, scales.uniform, offset);
}

uint32_t CodeAt(const Codec& codec, const Group& group, const uint8_t* code, int64_t i) {
  uint32_t q = 0;
  for (int b = 0; b < codec.bits; ++b)
    q |= static_cast<uint32_t>(code[group.payload + b * group.plane_bytes + i / 8] >> (i % 8) & 1) << b;
  return q;
}

}  // namespace

void EncodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const float* x, uint8_t* code) {
  const CodeLayout layout = LayoutOf(codec, elements);
  std::fill_n(code, layout.sample_bytes, uint8_t{0});
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    Scales scales;
    if (codec.HasLevels()) {
      scales = MakeScales(codec, x + group.first, group.count);
      StoreScales(codec, scales, code + group.metadata);
      if (!(codec.kind == CodecKind::kSign ? IsFinite(scales.sign) : IsFinite(scales.uniform))) continue;
    }
    for (int64_t i = 0; i < group.count; ++i) {
      const float element = x[group.first + i];
      uint32_t q = 0;
      if (codec.kind == CodecKind::kMask) q = EncodeMask(element);
      if (codec.kind == CodecKind::kIndex) q = EncodeIndex(element, codec.bits);
      if (codec.HasLevels())
        q = Quantize(codec, scales, element, RoundingBits(codec, random, sample, layout, g, i));
      for (int b = 0; b < codec.bits; ++b)
        code[group.payload + b * group.plane_bytes + i / 8] |= static_cast<uint8_t>((q >> b & 1) << (i % 8));
    }
  }
}

void DecodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    Scales scales;
    if (codec.HasLevels()) scales = LoadScales(codec, code + group.metadata);
    for (int64_t i = 0; i < group.count; ++i) {
      const uint32_t q = CodeAt(codec, group, code, i);
      const bool dither = codec.rounding == Rounding::kDither;
      const int32_t offset = dither ? DitherOffset(RoundingBits(codec, random, sample, layout, g, i)) : 0;
      x[group.first + i] = codec.HasLevels() ? Dequantize(codec, scales, q, offset) : static_cast<float>(q);
    }
  }
}

void DecodeMaskReference(const Codec& codec, int64_t elements, const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  const auto above = static_cast<uint32_t>(codec.levels - codec.below);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    for (int64_t i = 0; i < group.count; ++i) {
      const uint32_t q = CodeAt(codec, group, code, i);
      x[group.first + i] = (codec.kind == CodecKind::kSign ? q < above : q != 0) ? 1.0f : 0.0f;
    }
  }
}

}  // namespace act
