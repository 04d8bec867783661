// Codes as compiled runs (run_code.h) read them: the bit planes of each group, and the numbers with which its codes
// become values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/code_tile.h"

namespace act {

// What a code stands for. Positions are 256 times the code, with the rounding's offset (rounding.h), as in
// level_values-inl.h.
enum class PlaneValue : uint8_t {
  kCode,     // the code itself
  kMask,     // 1 where the code is at least `from` and below `to`, else 0
  kUniform,  // position * scale + minimum
  kSign,     // position * scale; from code `to` on (position - that of `to`) * other_scale
  kSides,    // as kSign, plus minimum or other_minimum
  kZero,     // other_minimum for code 0, else that of kUniform for the code before
};

// How values follow from the planes of a code with even levels, a mask or an index.
struct PlaneForm {
  PlaneValue value = PlaneValue::kCode;
  bool dither = false;
  int32_t bits = 0;         // planes
  int32_t plane_bytes = 0;  // of a whole group
  int32_t from = 0, to = 0;
  bool operator==(const PlaneForm&) const = default;
  int32_t GroupElements() const { return 8 * plane_bytes; }
  // The code from which others are of the second kind (level_values-inl.h). 0: all are of one.
  int32_t FirstOfSecondKind() const;
  // Whether it is the mask of the codes of the first kind, if those are numbers of this form.
  bool MasksFirstKind(const PlaneForm& numbers) const;
  // The numbers of a PlaneGroup that its values need, as offsets.
  std::vector<size_t> Numbers() const;
};

// Nullopt for codes that are not one bit plane after the other, and for fitted levels. mask: of the elements that are
// greater than 0 (kZero: not 0).
std::optional<PlaneForm> PlaneFormOf(const Codec& codec, bool mask);

// A group, or the part of one that lies in a block of a tile.
struct PlaneGroup {
  const uint8_t* planes;
  float scale, minimum, other_scale, other_minimum;
  uint32_t turned;  // 2^16 (2^15 - 1 - start) of the dither sequence (DitherOffsets)
};

constexpr size_t kScale = offsetof(PlaneGroup, scale), kMinimum = offsetof(PlaneGroup, minimum),
                 kOtherScale = offsetof(PlaneGroup, other_scale),
                 kOtherMinimum = offsetof(PlaneGroup, other_minimum);

// The blocks of a tile.
struct PlacedCode {
  static constexpr size_t kMostBlocks = 64, kMostPlaneBytes = 128;
  PlaneGroup blocks[kMostBlocks];
  // The planes of a short group, as far apart as those of others. The end of the last one is read with what follows it.
  uint8_t last[8 * kMostPlaneBytes + 4];
};

// Fills in the blocks of `block` elements, which divides the group size. `code` is the sample's.
void PlaceCode(const Codec& codec, const CodeLayout& layout, const PlaneForm& form, DrawnStream& random,
               const TilePlace& place, int64_t block, const uint8_t* code, PlacedCode& to);

}  // namespace act
