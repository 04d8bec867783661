// A codec as its arithmetic sees it: plain numbers, for the host and the device. Sizes, names and
// checks belong to the host: runtime/codec/codec.h.
#pragma once

#include <cstdint>

#include "kernels/math/fitted_shapes.h"
#include "kernels/math/host_device.h"
#include "kernels/math/small_float.h"

namespace act {

// The kinds for which kernels have loops. Codecs of one kind differ only in numbers: casts in their
// format, codes with levels in the number and the places of the levels. Plans store names of codecs
// (runtime/codec/codec_row.cc), and none of these values.
enum class CodecKind : uint8_t {
  kNone,     // not coded
  kMask,     // 1 bit an element: x > 0; decodes to 1 or 0. No metadata, no error.
  kUniform,  // per-group minimum and scale, levels at equal steps over the group's range
  kIndex,    // lossless small unsigned integers, `bits` each (uint8 tensors: pool indices)
  // which side x is on (x > 0 or not), exactly, and a magnitude: a scale for each side
  kSign,
  kZero,  // zeros exactly, and kUniform for all other elements
  kCast,  // to a smaller floating-point format (small_float.h), to nearest even
  // Encoded and decoded a group at a time by the codec's own functions (runtime/codec/group_code.h),
  // for codecs without loops in the kernels, such as plugins.
  kGroups,
};
inline constexpr CodecKind kLastCodecKind = CodecKind::kGroups;

// How a position between two levels is rounded to one of them. All but kNearest are unbiased.
enum class Rounding : uint8_t {
  // Up with the probability of its distance from the level below. The variance is step^2 / 6 on
  // average, step^2 / 4 at most.
  kStochastic,
  // Subtractive dither: decode subtracts what encode added. The variance is step^2 / 12 at every
  // position.
  kDither,
  kNearest,  // biased; for comparison
};
inline constexpr Rounding kLastRounding = Rounding::kNearest;

// What a group stores beside its codes. A scale is rounded up, to 8 significant bits (bf16) or to
// the 16 steps per octave of an 8-bit logarithm (kernels/math/level_scale.h).
enum class Metadata : uint8_t {
  kPair,     // kSign: two bf16 scales; others: bf16 minimum and scale. 4 bytes
  kLogPair,  // kSign: two 8-bit scales, 2 bytes; others: bf16 minimum, 8-bit scale, 3 bytes
  // One bf16 scale, 2 bytes. kSign: for both sides. Others: levels from 0 on if nothing is below 0,
  // otherwise symmetric around 0.
  kSingle,
  // One 8-bit scale, 1 byte. kSign: for both sides. kUniform: levels symmetric around 0.
  kLogSingle,
  kSides,  // kSign alone: bf16 minimum and scale of the magnitudes of each side, 8 bytes
};
inline constexpr Metadata kLastMetadata = Metadata::kSides;

inline constexpr int64_t kDefaultGroupSize = 256;
inline constexpr int kMostLevels = 256;

// The fewest bits that hold `levels` codes.
ACT_HOST_DEVICE constexpr int BitsOfLevels(int levels) {
  int bits = 0;
  while ((1 << bits) < levels) ++bits;
  return bits;
}

struct CodecSpec {
  CodecKind kind = CodecKind::kNone;
  int32_t bits = 0;        // of one code; with levels: BitsOfLevels(levels); plugins: as requested
  int32_t group_size = 0;  // elements; 64, 128, 256, 512 or 1024
  int32_t levels = 0;      // kUniform, kSign, kZero: number of codes, that of zero included
  int32_t below = 0;       // kSign: levels of x <= 0; both sides have at least 2
  Rounding rounding = Rounding::kStochastic;
  Metadata metadata = Metadata::kPair;
  Spacing spacing = Spacing::kEven;
  SmallFloat cast = {};  // kCast: the format

  ACT_HOST_DEVICE constexpr bool HasLevels() const {
    return kind == CodecKind::kUniform || kind == CodecKind::kSign || kind == CodecKind::kZero;
  }
  ACT_HOST_DEVICE constexpr bool IsCast() const { return kind == CodecKind::kCast; }
  // Whether the code shows exactly if an element is greater than 0 (kZero: not 0).
  ACT_HOST_DEVICE constexpr bool HoldsMask() const {
    return kind == CodecKind::kSign || kind == CodecKind::kZero;
  }
  ACT_HOST_DEVICE constexpr int LevelsAbove() const { return levels - below; }  // kSign
  // Levels over one range. For kZero, those of nonzero elements. kSign has two ranges.
  ACT_HOST_DEVICE constexpr int LevelsOverRange() const {
    return kind == CodecKind::kZero ? levels - 1 : levels;
  }
  // Whether the metadata has a single scale, or 8-bit logarithms as scales.
  ACT_HOST_DEVICE constexpr bool HasOneScale() const {
    return metadata == Metadata::kSingle || metadata == Metadata::kLogSingle;
  }
  ACT_HOST_DEVICE constexpr bool HasLogScales() const {
    return metadata == Metadata::kLogPair || metadata == Metadata::kLogSingle;
  }
};

// `codes` codes of K levels are written as one number below K^codes, of `bits` bits: for example 3
// codes of 5 levels in 7 bits. codes = 1 if this takes no fewer bits than a power of two of levels.
struct CodePacking {
  int codes = 1;
  int bits = 0;
};
// The densest packing with at most 5 codes and 16 bits: within 9 % of log2 K for every K.
ACT_HOST_DEVICE constexpr CodePacking CodePackingOf(int levels) {
  CodePacking best{1, BitsOfLevels(levels)};
  int64_t product = levels;
  for (int codes = 2; codes <= 5; ++codes) {
    product *= levels;
    if (product > 1 << 16) break;
    const int bits = BitsOfLevels(static_cast<int>(product));
    if (bits * best.codes < best.bits * codes) best = {codes, bits};
  }
  return best;
}
ACT_HOST_DEVICE constexpr CodePacking CodePackingOf(const CodecSpec& codec) {
  return codec.HasLevels() ? CodePackingOf(codec.levels) : CodePacking{1, codec.bits};
}

}  // namespace act
