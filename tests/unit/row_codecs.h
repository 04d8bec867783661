// Codecs that tests take from the table, so that a new row is in all tests that go over rows.
#pragma once

#include <vector>

#include "runtime/codec/codec_row.h"

namespace act {

// Codecs of the rows of a kind, at each number of bits that one allows. No plugin is among them.
inline std::vector<Codec> CodecsOfRows(CodecKind kind) {
  std::vector<Codec> codecs;
  for (const CodecRow& row : AllCodecRows()) {
    if (row.kind != kind) continue;
    for (int bits = 1; bits <= 16; ++bits) {
      const Codec codec = CodecOf(row, bits);
      if (!CheckCodec(codec)) codecs.push_back(codec);
    }
  }
  return codecs;
}
inline std::vector<Codec> AllCasts() { return CodecsOfRows(CodecKind::kCast); }

// All that is not made of levels, masks or indices.
inline std::vector<Codec> CastsAndGroups() {
  std::vector<Codec> codecs = AllCasts();
  for (const Codec& codec : CodecsOfRows(CodecKind::kGroups)) codecs.push_back(codec);
  return codecs;
}

inline std::vector<Spacing> AllFittedSpacings() {
  std::vector<Spacing> spacings;
  for (int i = 1; i <= kFittedSpacingCount; ++i) spacings.push_back(static_cast<Spacing>(i));
  return spacings;
}

}  // namespace act
