// All that the host knows of a kind of codec, one row for each kind: sizes, names, checks,
// attributes, errors. Code that depends on the kind asks the row. Nowhere else in runtime/ or
// compiler/ is there a switch over kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/attributes.h"
#include "runtime/codec/codec.h"

namespace act {

struct GroupStatistics;  // runtime/codec/error_model.h

// No member is null. Every function takes a codec of the row's kind. All but `check` and `name`
// require a codec that passes `check`.
struct CodecRow {
  CodecKind kind;
  const char* attribute;                    // the attribute `kind` of Compress and Decompress
  bool exact;                               // decoding gives the original elements
  std::string (*name)(const Codec& codec);  // ToString
  // What is wrong with the codec, if anything. The group size is known to be in range.
  std::optional<std::string> (*check)(const Codec& codec);
  int64_t (*metadata_bytes)(const Codec& codec);                // of a group
  int64_t (*payload_bytes)(const Codec& codec, int64_t count);  // of a group of `count` elements
  // E[(decoded - x)^2] of an element (error_model.h).
  double (*error)(const Codec& codec, const GroupStatistics& group);
  // For one sample's code (not_finite.h).
  int64_t (*count_not_finite)(const Codec& codec, const CodeLayout& layout, const uint8_t* code);
  // Reads the attributes other than kind, bits and group size.
  void (*read)(const Attributes& attrs, Codec& codec);
  void (*write)(const Codec& codec, Attributes& attrs);
};

// In the order of the enumeration, kNone first. kNone stores no codes and passes no check.
std::span<const CodecRow> AllCodecRows();
// The row of `kind`. A number that is not a kind gives the row of kNone.
const CodecRow& RowOf(CodecKind kind);

}  // namespace act
