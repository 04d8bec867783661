#include "runtime/codec/not_finite.h"

#include <cstring>

namespace act {
namespace {

constexpr uint8_t kLogNaN = 255;  // of an 8-bit scale

uint16_t Load16(const uint8_t* from) {
  uint16_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
bool IsNaN(uint16_t bf16) { return (bf16 & 0x7FFF) > 0x7F80; }

// Whether a group's metadata says that all of it is NaN. Every form has at its beginning what is NaN then: a
// scale, a minimum, or (kSides) the scale of a side.
bool GroupIsNaN(const Codec& codec, const uint8_t* metadata) {
  switch (codec.metadata) {
    case Metadata::kSides:
      return IsNaN(Load16(metadata + 2));
    case Metadata::kLogPair:
      return codec.kind == CodecKind::kSign ? metadata[0] == kLogNaN : IsNaN(Load16(metadata));
    case Metadata::kLogSingle:
      return metadata[0] == kLogNaN;
    default:
      return IsNaN(Load16(metadata));
  }
}

bool CastIsNotFinite(CodecKind kind, const uint8_t* at) {
  switch (kind) {
    case CodecKind::kFloat16:
      return (Load16(at) & 0x7C00) == 0x7C00;
    case CodecKind::kBFloat16:
      return (Load16(at) & 0x7F80) == 0x7F80;
    case CodecKind::kFloat8E4M3:
      return (*at & 0x7F) == 0x7F;
    default:
      return (*at & 0x7C) == 0x7C;
  }
}

}  // namespace

int64_t CountNotFinite(const Codec& codec, int64_t elements, const uint8_t* code) {
  int64_t count = 0;
  if (codec.HasLevels()) {
    const CodeLayout layout = LayoutOf(codec, elements);
    for (int64_t g = 0; g < layout.groups; ++g) count += GroupIsNaN(codec, code + g * layout.metadata_bytes);
  } else if (codec.IsCast()) {
    const int64_t bytes = codec.bits / 8;
    for (int64_t i = 0; i < elements; ++i) count += CastIsNotFinite(codec.kind, code + i * bytes);
  }
  return count;
}

}  // namespace act
