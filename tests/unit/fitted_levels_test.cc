// Fitted levels: the tables are the best ones for the distribution that their first line names.
// Codes that use them are unbiased and have a smaller error.
#include "kernels/math/fitted_levels.h"

#include <gtest/gtest.h>

#include "tests/unit/codec_testing.h"
#include "tests/unit/row_codecs.h"

namespace act {
namespace {

// E[f (1 - f)] over the interval between grid points i and j, times the probability
// of that interval.
using Moments = std::vector<std::vector<double>>;

Moments MomentsOf(bool two_sided) {
  constexpr int kFine = 64;  // points of the density in a cell of the grid
  constexpr int kPoints = kFittedGrid * kFine;
  std::vector<double> weight(kPoints);
  double total = 0;
  for (int p = 0; p < kPoints; ++p) {
    const double y = (p + .5) / kPoints, z = two_sided ? (2 * y - 1) * 2.9 : y * 2.8;
    total += weight[static_cast<size_t>(p)] = std::exp(-z * z / 2);
  }
  Moments moments(kFittedGrid + 1, std::vector<double>(kFittedGrid + 1, 0));
  for (int i = 0; i < kFittedGrid; ++i)
    for (int j = i + 1; j <= kFittedGrid; ++j)
      for (int p = i * kFine; p < j * kFine; ++p) {
        const double f = ((p + .5) / kFine - i) / (j - i);
        moments[static_cast<size_t>(i)][static_cast<size_t>(j)] +=
            weight[static_cast<size_t>(p)] / total * f * (1 - f);
      }
  return moments;
}

// The part of the variance that interval i..j adds. Distances are in parts of the range; b is B.
double Part(const Moments& moments, int i, int j, double b) {
  const double d = static_cast<double>(j - i) / kFittedGrid;
  return (d * d - b * d) * moments[static_cast<size_t>(i)][static_cast<size_t>(j)];
}

double VarianceOf(const Moments& moments, const FittedShape& shape, int count) {
  const double b = shape.dither / 16. / (count - 1);
  double variance = b * b / 12;
  for (int j = 0; j + 1 < count; ++j) variance += Part(moments, shape.at[j], shape.at[j + 1], b);
  return variance;
}

double BestVariance(const Moments& moments, int count) {
  double best = 1;
  for (int sixteenths = 4; sixteenths < 64; ++sixteenths) {
    const double b = sixteenths / 16. / (count - 1);
    std::vector<double> least(kFittedGrid + 1, 1);
    least[0] = 0;
    for (int level = 1; level < count; ++level) {
      std::vector<double> next(kFittedGrid + 1, 1);
      for (int j = 1; j <= kFittedGrid; ++j)
        for (int i = 0; i < j; ++i)
          next[static_cast<size_t>(j)] =
              std::min(next[static_cast<size_t>(j)], least[static_cast<size_t>(i)] + Part(moments, i, j, b));
      least = next;
    }
    best = std::min(best, least[kFittedGrid] + b * b / 12);
  }
  return best;
}

TEST(FittedLevels, TablesAreTheBestOfTheGrid) {
  for (const bool two_sided : {false, true}) {
    const Moments moments = MomentsOf(two_sided);
    for (int count = 2; count <= kMostFittedLevels; ++count) {
      const FittedShape& shape =
          (two_sided ? kFittedSpacings[0].two_sides : kFittedSpacings[0].one_side)[count - 2];
      EXPECT_NEAR(VarianceOf(moments, shape, count) / BestVariance(moments, count), 1, 1e-9)
          << count << " levels, " << (two_sided ? "two sides" : "one side");
    }
  }
}

std::vector<FittedLevels> AllFittedLevels() {
  std::vector<FittedLevels> all;
  for (int count = 2; count <= kMostFittedLevels; ++count) {
    for (const Spacing spacing : AllFittedSpacings())
      for (const bool two_sides : {false, true})
        if (const FittedLevels& levels = FittedLevelsOver(spacing, two_sides, count); levels.count > 0)
          all.push_back(levels);
  }
  return all;
}

TEST(FittedLevels, PositionsAreContinuousAndEndAtTheTop) {
  for (const FittedLevels& levels : AllFittedLevels()) {
    const auto steps = static_cast<uint32_t>(levels.count - 1);
    uint32_t before = 0;
    for (uint32_t p = 0; p <= steps << 16; ++p) {
      const uint32_t position = FittedPosition(p, levels);
      ASSERT_GE(position, before) << levels.count << " levels at " << p;
      ASSERT_LE(position - before, 65536u / 8)
          << levels.count << " levels at " << p;  // no jump: at most the steepest slope
      before = position;
    }
    ASSERT_LE(before, steps << 16);
    ASSERT_GE(before, (steps << 16) - 8);
  }
}

TEST(FittedLevels, EachPositionsCellKnowsTheLevelBelowIt) {
  for (const FittedLevels& levels : AllFittedLevels())
    for (uint32_t p = 0; p <= static_cast<uint32_t>(levels.count - 1) << 16; ++p) {
      const uint32_t cell =
          std::min((p >> kFittedCellShift) * levels.cells_per_position >> 16, kFittedGrid - 1u);
      const uint32_t q = levels.cells[cell / 8] >> (4 * (cell % 8)) & 15;
      ASSERT_GE(p, levels.start[q]) << levels.count << " levels";
      ASSERT_LE(p, levels.start[q + 1]) << levels.count << " levels";
      ASSERT_TRUE(p < levels.start[q + 1] || static_cast<int32_t>(q) + 2 == levels.count) << p;
    }
}

std::vector<Codec> FittedCodecs() {
  std::vector<Codec> codecs;
  for (int levels = 2; levels <= 16; ++levels)
    codecs.push_back(Codec::Uniform(1, 256, Rounding::kDither).OfLevels(levels).Fitted());
  for (int levels : {3, 4, 8, 17}) codecs.push_back(Codec::Zero(2).OfLevels(levels).Fitted());
  codecs.push_back(Codec::Sign(3, 2).Fitted());
  codecs.push_back(Codec::Sign(3, 2).OfLevels(5).Fitted());
  codecs.push_back(Codec::Sign(4, 4, 128).Fitted());
  codecs.push_back(Codec::Sign(5, 16, 1024).Fitted());
  codecs.push_back(Codec::Sign(3, 3).With(Metadata::kLogPair).Fitted());
  for (const Codec& codec : codecs) EXPECT_EQ(CheckCodec(codec), std::nullopt) << ToString(codec);
  return codecs;
}

TEST(FittedLevels, TilesEqualTheReferenceOnEveryInstructionSet) {
  const std::vector<Codec> codecs = FittedCodecs();
  ForEachTarget([&codecs] {
    for (const Codec& codec : codecs)
      for (int64_t elements : {1, 65, 300, 1024, 2500}) {
        std::vector<float> x = Normal(elements, 3, static_cast<unsigned>(elements));
        if (elements > 500) std::fill(x.begin() + 64, x.begin() + 128, 0.0f);
        if (elements > 2000) x[1700] = kNaN;
        ExpectSameCode(codec, x, elements % 7);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

// The mean squared error, and the largest bias of an element in standard errors of the mean.
struct Errors {
  double variance = 0, worst_bias = 0;
};
Errors Measure(const Codec& codec, const std::vector<float>& x, int steps) {
  std::vector<double> sum(x.size()), square(x.size());
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> y = RoundTrip(codec, x, {3, static_cast<uint64_t>(step), 5});
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = static_cast<double>(y[i]) - static_cast<double>(x[i]);
      sum[i] += e;
      square[i] += e * e;
    }
  }
  Errors errors;
  for (size_t i = 0; i < x.size(); ++i) {
    const double mean = sum[i] / steps, of_mean = std::sqrt((square[i] / steps - mean * mean) / steps);
    errors.variance += square[i] / steps / static_cast<double>(x.size());
    errors.worst_bias = std::max(errors.worst_bias, std::fabs(mean) / of_mean);
  }
  return errors;
}

TEST(FittedLevels, TakeAFifthOffTheVarianceOfNormalDataWithoutBias) {
  const std::vector<float> x = Normal(8192);
  for (const Codec& codec : {Codec::Sign(3, 4), Codec::Sign(4, 6), Codec::Uniform(3, 256, Rounding::kDither),
                             Codec::Uniform(4, 256, Rounding::kDither)}) {
    const Errors even = Measure(codec, x, 40), fitted = Measure(codec.Fitted(), x, 40);
    EXPECT_LT(fitted.variance, .88 * even.variance) << ToString(codec);
    EXPECT_GT(fitted.variance, .7 * even.variance) << ToString(codec);
  }
  // The dither's grid of 1/128 leaves a bias below a 256th of the widest step, which is .03 of its
  // deviation. 400 steps see that as .6 standard errors. The largest of 8192 normal numbers is 4.
  const Errors sign =
      Measure(Codec::Sign(3, 2).Fitted(), std::vector<float>(x.begin(), x.begin() + 1024), 400);
  EXPECT_LT(sign.worst_bias, 5.5);
}

}  // namespace
}  // namespace act
