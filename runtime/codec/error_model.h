// Predicts what a codec adds to the gradient's variance without running it: the expected squared
// error of an element.
#pragma once

#include <cstdint>

#include "runtime/codec/codec.h"

namespace act {

// Statistics of the elements of a group, averaged over a tensor's groups. The model takes the
// elements to be normally distributed and cut off at the ends of the range.
struct GroupStatistics {
  double lowest = 0, highest = 0;  // smallest and largest element; kZero: of the nonzero ones
  double largest = 0;              // largest magnitude
  // of the normal distribution before the cut; kZero: of nonzero elements
  double mean = 0, deviation = 1;
  double zeros = 0;  // fraction of the elements that are exactly 0
};

// For groups of `group_size` normally distributed elements.
GroupStatistics NormalGroups(int64_t group_size, double mean = 0, double deviation = 1);
// The same after a ReLU. For a mean of 0, what remains is a half normal distribution.
GroupStatistics RectifiedNormalGroups(int64_t group_size, double deviation = 1);

// The factor by which rounding the scales up raises a code's variance (1 for exact scales). For
// codes with levels.
double ScaleExcess(const Codec& codec);

// E[(decoded - x)^2] of an element; 0 for exact codecs. `codec` must pass CheckCodec. Within 10 %
// of the measured error on normal data (tests/unit/error_model_test.cc; the table in
// docs/measurements/codecs.md).
double ErrorVariance(const Codec& codec, const GroupStatistics& group);
// The same, for codes with levels and for casts.
double LevelError(const Codec& codec, const GroupStatistics& group);
double CastError(const Codec& codec, const GroupStatistics& group);

}  // namespace act
