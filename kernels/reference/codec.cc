#include "kernels/reference/codec.h"

#include <algorithm>
#include <cstring>

#include "kernels/math/small_code.h"
#include "kernels/math/uniform_code.h"

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

UniformScale ScaleOf(const float* x, int64_t count, int bits) {
  float lowest = x[0], highest = x[0];
  uint32_t largest_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, x[i]);
    highest = std::max(highest, x[i]);
    largest_bits = std::max(largest_bits, BitsOf(x[i]) & 0x7FFFFFFFu);
  }
  return MakeUniformScale(lowest, highest, largest_bits, bits);
}

}  // namespace

void EncodeSampleReference(const Codec& codec, const RandomStream& random, int64_t sample, int64_t elements,
                           const float* x, uint8_t* code) {
  const CodeLayout layout = LayoutOf(codec, elements);
  std::fill_n(code, layout.sample_bytes, uint8_t{0});
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    UniformScale scale;
    if (codec.kind == CodecKind::kUniform) {
      scale = ScaleOf(x + group.first, group.count, codec.bits);
      std::memcpy(code + group.metadata, &scale.minimum_bf16, 2);
      std::memcpy(code + group.metadata + 2, &scale.scale_bf16, 2);
      if (!IsFinite(scale)) continue;
    }
    for (int64_t i = 0; i < group.count; ++i) {
      const int64_t e = group.first + i;
      uint32_t q = 0;
      if (codec.kind == CodecKind::kMask) q = EncodeMask(x[e]);
      if (codec.kind == CodecKind::kIndex) q = EncodeIndex(x[e], codec.bits);
      if (codec.kind == CodecKind::kUniform)
        q = QuantizeUniform(x[e], scale, Random16(random, sample, elements, e));
      for (int b = 0; b < codec.bits; ++b)
        code[group.payload + b * group.plane_bytes + i / 8] |= static_cast<uint8_t>((q >> b & 1) << (i % 8));
    }
  }
}

void DecodeSampleReference(const Codec& codec, int64_t elements, const uint8_t* code, float* x) {
  const CodeLayout layout = LayoutOf(codec, elements);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const Group group = GroupOf(codec, layout, g);
    UniformScale scale;
    if (codec.kind == CodecKind::kUniform) {
      uint16_t stored[2];
      std::memcpy(stored, code + group.metadata, 4);
      scale = LoadUniformScale(stored[0], stored[1]);
    }
    for (int64_t i = 0; i < group.count; ++i) {
      uint32_t q = 0;
      for (int b = 0; b < codec.bits; ++b)
        q |= static_cast<uint32_t>(code[group.payload + b * group.plane_bytes + i / 8] >> (i % 8) & 1) << b;
      x[group.first + i] =
          codec.kind == CodecKind::kUniform ? DequantizeUniform(q, scale) : static_cast<float>(q);
    }
  }
}

}  // namespace act
