#include "runtime/levels/code_forms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "runtime/codec/error_model.h"

namespace act {
namespace {

constexpr int kLevels[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,  13,  14,
                           15, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256};
constexpr int kLeastGroup = 64;
// Of codes with 8-bit scales. A single step over the range of normalized numbers may be above 7.7.
constexpr int kLeastLogLevels = 3;

double Square(double x) { return x * x; }

// How the group size affects codes of normally distributed numbers.
struct GroupFactors {
  double range = 1;  // squared, relative to that of 256 elements
  // By number of levels: the error of levels fitted to one side, relative to that of even ones.
  std::array<double, kMostFittedLevels + 1> fitted{};
};

GroupFactors FactorsOf(int32_t group_size) {
  const GroupStatistics side = RectifiedNormalGroups(group_size);
  GroupFactors factors{.range = Square(side.highest / RectifiedNormalGroups(kDefaultGroupSize).highest)};
  for (int k = 2; k <= kMostFittedLevels; ++k) {
    const Codec even = Codec::Zero(4, group_size).OfLevels(k + 1);
    factors.fitted[static_cast<size_t>(k)] = ErrorVariance(even.Fitted(), side) / ErrorVariance(even, side);
  }
  return factors;
}

// group_size: a power of two in 64..1024 (CheckCodec).
const GroupFactors& FactorsOf(const Codec& codec) {
  static const std::array factors = {FactorsOf(64), FactorsOf(128), FactorsOf(256), FactorsOf(512),
                                     FactorsOf(1024)};
  return factors[static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(codec.group_size) / 64))];
}

// 1 / (count - 1)^2, adjusted for the codec's spacing.
double SideError(const Codec& codec, int count) {
  const double even = 1 / Square(count - 1);
  return codec.spacing == Spacing::kEven ? even : even * FactorsOf(codec).fitted[static_cast<size_t>(count)];
}

// The number of levels below 0 that makes a sign code's error least; 0 if none is allowed.
int32_t LevelsBelow(Codec codec, double share_below) {
  const int32_t most = codec.spacing == Spacing::kFitted ? kMostFittedLevels : kMostLevels;
  int32_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (codec.below = std::max(2, codec.levels - most); codec.below <= std::min(most, codec.levels - 2);
       ++codec.below) {
    const double error = RelativeError(codec, share_below);
    if (error < least) {
      least = error;
      best = codec.below;
    }
  }
  return best;
}

// The same metadata with an 8-bit scale. In a zero code, an 8-bit scale has no room for where the
// levels begin, so a minimum is stored beside it.
Metadata InLogarithms(Metadata metadata) {
  const bool sides = metadata == Metadata::kSides, logarithms = metadata == Metadata::kLogSingle;
  return sides || logarithms ? metadata : Metadata::kLogPair;
}

}  // namespace

double RelativeError(const Codec& codec, double share_below) {
  const double factor = FactorsOf(codec).range * ScaleExcess(codec);
  if (codec.kind == CodecKind::kSign)
    return factor * (SideError(codec, codec.LevelsAbove()) + share_below * SideError(codec, codec.below));
  if (codec.kind == CodecKind::kZero) return factor * SideError(codec, codec.LevelsOverRange());
  return factor / Square(codec.levels - 1);
}

std::vector<Codec> LevelChoices(const Codec& codec, double share_below) {
  std::vector<Codec> choices;
  if (!codec.HasLevels()) return choices;
  for (const int levels : kLevels) {
    if (codec.kind == CodecKind::kZero && levels < 3) continue;
    Codec choice = codec.OfLevels(levels);
    if (codec.kind == CodecKind::kSign) choice.below = LevelsBelow(choice, share_below);
    if (!CheckCodec(choice)) choices.push_back(choice);
  }
  return choices;
}

std::vector<Codec> FormChoices(const Codec& codec, double share_below, bool normalized) {
  std::vector<Codec> levels = LevelChoices(codec, share_below);
  if (codec.rounding != Rounding::kDither) return levels;
  // A side that has a range of its own is not one side of a normal distribution.
  const bool one_sided = (codec.kind == CodecKind::kSign && codec.metadata != Metadata::kSides) ||
                         codec.kind == CodecKind::kZero;
  const bool logarithms = normalized || codec.HasLogScales();
  if (one_sided && codec.spacing == Spacing::kEven) {
    const Metadata metadata = logarithms ? InLogarithms(codec.metadata) : codec.metadata;
    const std::vector<Codec> fitted = LevelChoices(codec.Fitted().With(metadata), share_below);
    levels.insert(levels.end(), fitted.begin(), fitted.end());
  }
  std::vector<Codec> choices;
  for (Codec choice : levels) {
    for (; choice.group_size >= kLeastGroup; choice.group_size /= 2) {
      choices.push_back(choice);
      const Metadata other = InLogarithms(choice.metadata);
      if (logarithms && other != choice.metadata) choices.push_back(choice.With(other));
    }
  }
  std::erase_if(choices, [](const Codec& choice) {
    return choice.kind != CodecKind::kSign && choice.HasLogScales() &&
           choice.LevelsOverRange() < kLeastLogLevels;
  });
  return choices;
}

}  // namespace act
