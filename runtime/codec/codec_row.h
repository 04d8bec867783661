// All that the host knows of a codec, one row for each: sizes, names, checks, attributes, errors.
// Code that depends on the codec asks the row. Nowhere else in runtime/ or compiler/ is there a
// switch over kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/attributes.h"
#include "runtime/codec/codec.h"

namespace act {

struct GroupStatistics;  // runtime/codec/error_model.h

// The defaults of a row's members.
namespace usual_row {

std::string Name(const Codec& codec);                  // attribute and bits; where not exact, the group size
std::optional<std::string> Check(const Codec& codec);  // 1 to 8 bits
int64_t NoMetadata(const Codec& codec);
int64_t PlaneBytes(const Codec& codec, int64_t count);  // bit planes
double NoError(const Codec& codec, const GroupStatistics& group);
int64_t AllFinite(const Codec& codec, const CodeLayout& layout, const uint8_t* code);
void ReadNothing(const Attributes& attrs, Codec& codec);
void WriteNothing(const Codec& codec, Attributes& attrs);

}  // namespace usual_row

// Each function takes a codec of the row. All but `check` and `name` require a codec that passes
// `check`.
struct CodecRow {
  // The attribute `kind` of Compress and Decompress, and of the codec in a plan.
  const char* attribute;
  CodecKind kind;
  SmallFloat cast = {};                                       // kCast: the format
  const GroupCode* groups = nullptr;                          // kGroups: its functions
  bool exact = false;                                         // decoding gives the original elements
  std::string (*name)(const Codec& codec) = usual_row::Name;  // ToString
  // What is wrong with the codec, if anything. The group size is known to be in range.
  std::optional<std::string> (*check)(const Codec& codec) = usual_row::Check;
  int64_t (*metadata_bytes)(const Codec& codec) = usual_row::NoMetadata;  // of a group
  // Of a group of `count` elements.
  int64_t (*payload_bytes)(const Codec& codec, int64_t count) = usual_row::PlaneBytes;
  // E[(decoded - x)^2] of an element (error_model.h).
  double (*error)(const Codec& codec, const GroupStatistics& group) = usual_row::NoError;
  // For one sample's code (not_finite.h). A NaN that is not counted shows when the code is decoded.
  int64_t (*count_not_finite)(const Codec& codec, const CodeLayout& layout,
                              const uint8_t* code) = usual_row::AllFinite;
  // Reads the attributes other than kind, bits and group size.
  void (*read)(const Attributes& attrs, Codec& codec) = usual_row::ReadNothing;
  void (*write)(const Codec& codec, Attributes& attrs) = usual_row::WriteNothing;
};

// The first row stands for no codec. It stores no codes and passes no check.
std::span<const CodecRow> AllCodecRows();
// The codec's row, or the first row if it has none.
const CodecRow& RowOf(const Codec& codec);
// A codec of the row, with 2^bits levels if it has levels. Its other members have their defaults.
Codec CodecOf(const CodecRow& row, int bits, int64_t group_size = kDefaultGroupSize);

// A codec as attributes of a node or of a plan: `kind`, `bits`, `group_size`, and what its row
// adds. Attributes that name no codec give one of kind kNone, which no check passes.
Codec CodecOf(const Attributes& attrs);
Attributes AttributesOf(const Codec& codec);

}  // namespace act
