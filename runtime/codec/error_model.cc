#include "runtime/codec/error_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/codec/codec_row.h"
#include "runtime/codec/level_codec.h"

namespace act {
namespace {

constexpr int kPoints = 2048;  // at which a density is evaluated

// Rounding a minimum down to 8 significant bits widens the range by this fraction of itself.
constexpr double kMinimumExcess = .0028;

double NormalBelow(double x) { return .5 * std::erfc(-x / std::sqrt(2.0)); }

// The expected largest of n standard normals: the integral of 1 - Phi^n above 0, less that of Phi^n
// below.
double ExpectedHighest(double n) {
  constexpr double kEnd = 8, kStep = 2 * kEnd / kPoints;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double x = -kEnd + (i + .5) * kStep;
    sum += ((x > 0) - std::pow(NormalBelow(x), n)) * kStep;
  }
  return sum;
}
// The expected largest magnitude of n standard normals.
double ExpectedLargest(double n) {
  constexpr double kEnd = 8, kStep = kEnd / kPoints;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i) sum += (1 - std::pow(2 * NormalBelow((i + .5) * kStep) - 1, n)) * kStep;
  return sum;
}

// K levels over [0, range]. ErrorAt is the squared error of an element at `distance` from the
// first level.
struct Levels {
  const Codec& codec;
  int count;
  double range;

  double ErrorAt(double distance) const {
    const double step = range / (count - 1);
    if (codec.spacing != Spacing::kEven) return FittedErrorAt(distance / range) * range * range;
    if (codec.rounding == Rounding::kDither) return step * step / 12;
    const double position = std::max(0.0, distance / step), f = position - std::floor(position);
    const double nearest = std::min(f, 1 - f);
    return step * step * (codec.rounding == Rounding::kNearest ? nearest * nearest : f * (1 - f));
  }
  // `x` is a position as a fraction of the range.
  double FittedErrorAt(double x) const {
    const FittedShape& shape = *level_codec::ShapeOf(codec, count);
    int q = 0;
    while (q + 2 < count && x * kFittedGrid >= shape.at[q + 1]) ++q;
    const double d = static_cast<double>(shape.at[q + 1] - shape.at[q]) / kFittedGrid;
    const double f = std::clamp((x - static_cast<double>(shape.at[q]) / kFittedGrid) / d, 0.0, 1.0);
    const double b = shape.dither / 16. / (count - 1);
    return (d * d - b * d) * f * (1 - f) + b * b / 12;
  }
};

// The squared error of a cast. The rounding error is spread evenly over the distance between two
// neighbouring numbers.
double CastErrorAt(const SmallFloat& f, double x) {
  const int least_exponent = 1 - f.Bias();
  const auto largest = static_cast<double>(DecodeSmallFloat(f, f.Largest()));
  const double magnitude = std::fabs(x);
  if (magnitude > largest) return (magnitude - largest) * (magnitude - largest);
  int exponent = least_exponent + 1;  // frexp's exponent is larger by one
  if (magnitude > 0) std::frexp(magnitude, &exponent);
  const double distance = std::ldexp(1.0, std::max(exponent - 1, least_exponent) - f.mantissa_bits);
  return distance * distance / 12;
}

// The mean of error(x) over those elements of the group that are not 0.
template <class F>
double Mean(const GroupStatistics& group, const F& error) {
  if (group.highest <= group.lowest) return error(group.lowest);
  double sum = 0, weights = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double x = group.lowest + (group.highest - group.lowest) * (i + .5) / kPoints;
    const double z = (x - group.mean) / group.deviation, weight = std::exp(-z * z / 2);
    sum += weight * error(x);
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

double SignError(const Codec& codec, const GroupStatistics& group, bool single) {
  const double above = std::max(group.highest, 0.0), below = std::max(-group.lowest, 0.0);
  double step_above = above / (codec.LevelsAbove() - 1), step_below = below / (codec.below - 1);
  if (single) step_above = step_below = std::max(step_above, step_below);
  const Levels up{codec, codec.LevelsAbove(), step_above * (codec.LevelsAbove() - 1)};
  const Levels down{codec, codec.below, step_below * (codec.below - 1)};
  return Mean(group, [&](double x) {
    const Levels& side = x > 0 ? up : down;
    return side.range > 0 ? side.ErrorAt(std::fabs(x)) : 0;
  });
}

}  // namespace

GroupStatistics NormalGroups(int64_t group_size, double mean, double deviation) {
  const auto n = static_cast<double>(group_size);
  const double highest = ExpectedHighest(n), largest = ExpectedLargest(n) * deviation;
  GroupStatistics group{.mean = mean, .deviation = deviation};
  group.lowest = mean - highest * deviation;
  group.highest = mean + highest * deviation;
  // Far from 0, the same end always has the largest magnitude. Around 0 either end may have it.
  group.largest = std::max({largest, -group.lowest, group.highest});
  return group;
}

GroupStatistics RectifiedNormalGroups(int64_t group_size, double deviation) {
  const auto n = static_cast<double>(group_size);
  GroupStatistics group{.deviation = deviation, .zeros = .5};
  // the least of n / 2 elements whose density at 0 is 2 phi(0)
  group.lowest = deviation * std::sqrt(2 * M_PI) / n;
  group.highest = group.largest = deviation * ExpectedHighest(n);
  return group;
}

// E[(1 + d)^2] of scales rounded up by d: to 8 significant bits, or to 16 steps an octave.
double ScaleExcess(const Codec& codec) { return codec.HasLogScales() ? 1.045 : 1.0056; }

double ErrorVariance(const Codec& codec, const GroupStatistics& group) {
  return RowOf(codec).error(codec, group);
}

double CastError(const Codec& codec, const GroupStatistics& group) {
  return (1 - group.zeros) * Mean(group, [&](double x) { return CastErrorAt(codec.cast, x); });
}

double LevelError(const Codec& codec, const GroupStatistics& group) {
  const bool single = codec.HasOneScale();
  const double excess = ScaleExcess(codec);
  if (codec.kind == CodecKind::kSign) return excess * SignError(codec, group, single);
  const int count = codec.LevelsOverRange();
  const double coded = codec.kind == CodecKind::kZero ? 1 - group.zeros : 1;
  double lowest = group.lowest,
         range = group.highest - group.lowest + kMinimumExcess * std::fabs(group.lowest);
  if (single) {
    const bool both_sides = codec.HasLogScales() || group.lowest < 0;
    lowest = both_sides ? -group.largest : 0;
    range = both_sides ? 2 * group.largest : group.highest;
  }
  if (range <= 0) return 0;
  const Levels levels{codec, count, range};
  return coded * excess * Mean(group, [&](double x) { return levels.ErrorAt(x - lowest); });
}

}  // namespace act
