// What a codec does to the gradient's variance, without running it: the expected squared error of an element.
#pragma once

#include <cstdint>

#include "runtime/codec/codec.h"

namespace act {

// What the elements of a group are like, averaged over a tensor's groups. They are taken to be normal, cut at
// the range's ends.
struct GroupStatistics {
  double lowest = 0, highest = 0;  // smallest and largest element; kZero: of what is not 0
  double largest = 0;              // largest magnitude
  double mean = 0, deviation = 1;  // of the normal distribution before the cut; kZero: of what is not 0
  double zeros = 0;                // part of the elements that are exactly 0
};

// Of groups of `group_size` elements of a normal distribution.
GroupStatistics NormalGroups(int64_t group_size, double mean = 0, double deviation = 1);
// Of the same behind a ReLU: what is left is a half normal, for a mean of 0.
GroupStatistics RectifiedNormalGroups(int64_t group_size, double deviation = 1);

// What rounding its scales up makes of a code's variance: 1 for exact ones. Of codes with levels.
double ScaleExcess(const Codec& codec);

// E[(decoded - x)^2] of an element; 0 for what is exact. codec must pass CheckCodec. Within 10 % of what is
// measured on normal data (tests/unit/error_model_test.cc; the table of docs/measurements/codecs.md).
double ErrorVariance(const Codec& codec, const GroupStatistics& group);
// The same of codes with levels, and of casts.
double LevelError(const Codec& codec, const GroupStatistics& group);
double CastError(const Codec& codec, const GroupStatistics& group);

}  // namespace act
