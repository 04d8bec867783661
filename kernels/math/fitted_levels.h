// The arithmetic of fitted levels (fitted_shapes.h). It converts a position between even levels to
// one between fitted ones, and a code to the position of its level.
#pragma once

#include <cstdint>

#include "kernels/math/codec_spec.h"
#include "kernels/math/fitted_shapes.h"
#include "kernels/math/host_device.h"

namespace act {

// The range is divided into kFittedGrid cells, and levels lie at cell borders. The table has 4 bits
// for each cell, 8 cells to a word: the number of the level at or below the cell. A position's cell
// is ((position >> kFittedCellShift) * cells_per_position) >> 16. At the top of the range, this is
// one after the last cell.
inline constexpr int kFittedCellShift = 9;
inline constexpr int kFittedCellWords = kFittedGrid / 8;

// A table in the form that encode and decode use.
struct FittedLevels {
  int32_t count = 0;
  uint32_t start[kMostFittedLevels] = {};  // of the interval above each level; 2^-16 of a step
  // below 2^32 / the distance to the next level, so that products fit 32 bits
  uint32_t slope[kMostFittedLevels] = {};
  int32_t value[kMostFittedLevels] = {};  // of each level, in kFittedUnit
  int32_t dither = 0;                     // in kFittedUnit; multiplies the rounding's offset
  // For a vector at a time.
  float value_as_float[kMostFittedLevels] = {};
  uint32_t cells[kFittedCellWords] = {};
  uint32_t cells_per_position = 0;
};
inline constexpr float kFittedUnit = 0x1p-12f;  // of an even step

// Converts a position between even levels, in 2^-16 of one, to a position between these levels. At
// the top of the range the result is still at most count - 1.
ACT_HOST_DEVICE inline uint32_t FittedPosition(uint32_t position, const FittedLevels& levels) {
  uint32_t q = 0;
  while (static_cast<int32_t>(q) + 2 < levels.count && position >= levels.start[q + 1]) ++q;
  return (q << 16) + ((position - levels.start[q]) * levels.slope[q] >> 16);
}
// The decoded position of level q, in kFittedUnit. `offset` is that of the rounding, in 1/256 of
// a level.
ACT_HOST_DEVICE inline int32_t FittedValue(uint32_t q, const FittedLevels& levels, int32_t offset) {
  return levels.value[q % kMostFittedLevels] + levels.dither * offset;
}

ACT_HOST_DEVICE constexpr FittedLevels MakeFittedLevels(const FittedShape& shape, int count) {
  FittedLevels levels;
  if (shape.dither == 0) return levels;
  levels.count = count;
  levels.dither = shape.dither;
  const auto steps = static_cast<uint32_t>(count - 1);
  for (int j = 0; j < count; ++j) {
    levels.start[j] = shape.at[j] * steps * (65536 / kFittedGrid);
    levels.value[j] = static_cast<int32_t>(shape.at[j] * steps * (4096 / kFittedGrid));
  }
  for (int j = 0; j + 1 < count; ++j) levels.slope[j] = 0xFFFFFFFFu / (levels.start[j + 1] - levels.start[j]);
  for (int j = 0; j < count; ++j) levels.value_as_float[j] = static_cast<float>(levels.value[j]);
  for (uint32_t cell = 0, q = 0; cell < kFittedGrid; ++cell) {
    while (q + 2 < static_cast<uint32_t>(count) && cell >= shape.at[q + 1]) ++q;
    levels.cells[cell / 8] |= q << (4 * (cell % 8));
  }
  // Rounded up. The cells are exact, since positions have at most 11 bits above kFittedCellShift.
  levels.cells_per_position = (65536 / 2 + steps - 1) / steps;
  // No position is in an interval after the last one.
  for (int j = count - 1; j < kMostFittedLevels; ++j) levels.start[j] = 0xFFFFFFFFu;
  return levels;
}

// Of all spacings, for 2..kMostFittedLevels levels on one side and on two.
struct FittedTables {
  FittedLevels of[kFittedSpacingCount][2][kMostFittedLevels - 1];
};
ACT_HOST_DEVICE constexpr FittedTables MakeFittedTables() {
  FittedTables tables;
  for (int s = 0; s < kFittedSpacingCount; ++s) {
    for (int count = 2; count <= kMostFittedLevels; ++count) {
      tables.of[s][0][count - 2] = MakeFittedLevels(kFittedSpacings[s].one_side[count - 2], count);
      tables.of[s][1][count - 2] = MakeFittedLevels(kFittedSpacings[s].two_sides[count - 2], count);
    }
  }
  return tables;
}

// The table for a number of levels of a spacing that is not even, computed at compile time. All are
// defined inside the function, since device code cannot access constants outside of functions.
ACT_HOST_DEVICE inline const FittedLevels& FittedLevelsOver(Spacing spacing, bool two_sides, int count) {
  static constexpr FittedTables kTables = MakeFittedTables();
  return kTables.of[static_cast<int>(spacing) - 1][two_sides ? 1 : 0][count - 2];
}

// The tables of a codec. Null if its levels are even.
struct FittedPair {
  const FittedLevels* above = nullptr;  // kSign: of the levels above 0; others: of all
  const FittedLevels* below = nullptr;
};
ACT_HOST_DEVICE inline FittedPair FittedLevelsOf(const CodecSpec& codec) {
  const Spacing spacing = codec.spacing;
  if (spacing == Spacing::kEven) return {};
  if (codec.kind == CodecKind::kSign)
    return {&FittedLevelsOver(spacing, false, codec.LevelsAbove()),
            &FittedLevelsOver(spacing, false, codec.below)};
  return {&FittedLevelsOver(spacing, codec.kind == CodecKind::kUniform, codec.LevelsOverRange()), nullptr};
}

}  // namespace act
