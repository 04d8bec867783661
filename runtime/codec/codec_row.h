// All that the host knows of a kind of codec, in one row a kind: sizes, names, checks, attributes,
// errors. Code that asks of a codec asks its row, and no switch over kinds stands anywhere else in
// runtime/ or compiler/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/attributes.h"
#include "runtime/codec/codec.h"

namespace act {

struct GroupStatistics;  // runtime/codec/error_model.h

// No member is null. Functions take codecs of the row's kind; all but `check` and `name` take such
// as pass `check`.
struct CodecRow {
  CodecKind kind;
  const char* attribute;                    // value of the attribute `kind` of Compress and Decompress
  bool exact;                               // decoding gives the elements back
  std::string (*name)(const Codec& codec);  // ToString
  // What is wrong with it; the group size is in range.
  std::optional<std::string> (*check)(const Codec& codec);
  int64_t (*metadata_bytes)(const Codec& codec);                // of a group
  int64_t (*payload_bytes)(const Codec& codec, int64_t count);  // of a group of `count` elements
  // E[(decoded - x)^2] of an element (error_model.h).
  double (*error)(const Codec& codec, const GroupStatistics& group);
  // Of one sample's code (not_finite.h).
  int64_t (*count_not_finite)(const Codec& codec, const CodeLayout& layout, const uint8_t* code);
  // What attributes hold beside kind, bits and group size.
  void (*read)(const Attributes& attrs, Codec& codec);
  void (*write)(const Codec& codec, Attributes& attrs);
};

// In the order of the enumeration, kNone first: it stores no codes and passes no check.
std::span<const CodecRow> AllCodecRows();
// That of kNone for a number that is no kind.
const CodecRow& RowOf(CodecKind kind);

}  // namespace act
