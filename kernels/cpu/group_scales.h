// The metadata of consecutive groups of a code with levels (level_scale.h).
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/math/level_scale.h"

namespace act {

// Calls f with the codec's kind and metadata as types, std::integral_constant. The compiler then leaves out the branches
// of level_scale.h, which take longer than its arithmetic.
template <class F>
void WithScaleForm(const CodecSpec& codec, const F& f) {
  const auto of_kind = [&](auto kind) {
    const auto call = [&]<Metadata kMetadata>() { f(kind, std::integral_constant<Metadata, kMetadata>()); };
    switch (codec.metadata) {
      case Metadata::kPair:
        return call.template operator()<Metadata::kPair>();
      case Metadata::kLogPair:
        return call.template operator()<Metadata::kLogPair>();
      case Metadata::kSingle:
        return call.template operator()<Metadata::kSingle>();
      case Metadata::kLogSingle:
        return call.template operator()<Metadata::kLogSingle>();
      case Metadata::kSides:
        return call.template operator()<Metadata::kSides>();
    }
  };
  if (codec.kind == CodecKind::kSign) return of_kind(std::integral_constant<CodecKind, CodecKind::kSign>());
  if (codec.kind == CodecKind::kZero) return of_kind(std::integral_constant<CodecKind, CodecKind::kZero>());
  of_kind(std::integral_constant<CodecKind, CodecKind::kUniform>());
}

// The codec with what WithScaleForm has given to f.
template <CodecKind kKind, Metadata kMetadata>
CodecSpec Known(CodecSpec codec, std::integral_constant<CodecKind, kKind>,
                std::integral_constant<Metadata, kMetadata>) {
  codec.kind = kKind;
  codec.metadata = kMetadata;
  return codec;
}

// Writes the metadata of groups with these ranges, `metadata_bytes` each, and what it holds to `scales`.
void StoreScales(const CodecSpec& codec, std::span<const GroupRange> ranges, uint8_t* metadata,
                 int64_t metadata_bytes, GroupScale* scales);

}  // namespace act
