// The error model, compared with what codes do to data. With --gtest_also_run_disabled_tests it
// prints the table of docs/measurements/codecs.md.
#include "runtime/codec/error_model.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/unit/codec_testing.h"
#include "tests/unit/row_codecs.h"

namespace act {
namespace {

constexpr int64_t kElements = 1 << 16;

// The distribution of a tensor's groups.
GroupStatistics StatisticsOf(const Codec& codec, const std::vector<float>& x) {
  GroupStatistics s{.deviation = 0};
  const auto group = static_cast<size_t>(codec.group_size);
  const bool skip = codec.kind == CodecKind::kZero;
  double sum = 0, square = 0, count = 0;
  for (size_t g = 0; g < x.size(); g += group) {
    double low = 1e30, high = -1e30;
    for (size_t i = g; i < g + group; ++i) {
      if (skip && x[i] == 0) continue;
      const auto v = static_cast<double>(x[i]);
      low = std::min(low, v);
      high = std::max(high, v);
      sum += v;
      square += v * v;
      ++count;
    }
    const size_t whole_groups = x.size() / group;
    const auto groups = static_cast<double>(whole_groups);
    s.lowest += low / groups;
    s.highest += high / groups;
    s.largest += std::max(std::fabs(low), std::fabs(high)) / groups;
  }
  s.zeros = 1 - count / static_cast<double>(x.size());
  s.mean = skip ? 0 : sum / count;  // a ReLU leaves half of a normal distribution around 0
  s.deviation = std::sqrt(square / count - s.mean * s.mean);
  return s;
}

double Measured(const Codec& codec, const std::vector<float>& x) {
  double square = 0;
  constexpr int kSteps = 4;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<float> y = RoundTrip(codec, x, {11, step, 1});
    for (size_t i = 0; i < x.size(); ++i)
      square += std::pow(static_cast<double>(y[i]) - static_cast<double>(x[i]), 2);
  }
  return square / kSteps / static_cast<double>(x.size());
}

std::vector<Codec> Codecs() {
  const Rounding dither = Rounding::kDither;
  std::vector<Codec> codecs;
  for (int bits : {2, 3, 4, 8}) codecs.push_back(Codec::Uniform(bits));
  for (int bits : {1, 2, 3, 4}) codecs.push_back(Codec::Uniform(bits, 256, dither));
  codecs.push_back(Codec::Uniform(3, 256, Rounding::kNearest));
  for (int64_t group : {64, 1024}) codecs.push_back(Codec::Uniform(3, group, dither));
  for (int levels : {3, 5, 6, 11}) codecs.push_back(Codec::Uniform(1, 256, dither).OfLevels(levels));
  for (const Metadata form : {Metadata::kLogPair, Metadata::kSingle, Metadata::kLogSingle})
    codecs.push_back(Codec::Uniform(3, 256, dither).With(form));
  for (int bits : {2, 3, 4})
    for (const Spacing spacing : AllFittedSpacings())
      codecs.push_back(Codec::Uniform(bits, 256, dither).With(spacing));
  codecs.push_back(Codec::Sign(2, 2));
  codecs.push_back(Codec::Sign(3, 2).OfLevels(5));
  codecs.push_back(Codec::Sign(3, 2));
  codecs.push_back(Codec::Sign(3, 2).With(Metadata::kLogPair));
  codecs.push_back(Codec::Sign(3, 3).With(Metadata::kSingle));
  for (const Spacing spacing : AllFittedSpacings()) codecs.push_back(Codec::Sign(3, 3).With(spacing));
  codecs.push_back(Codec::Sign(4, 4));
  codecs.push_back(Codec::Sign(4, 4).Fitted());
  codecs.push_back(Codec::Sign(4, 4, 256, Rounding::kStochastic));
  codecs.push_back(Codec::Zero(2));
  codecs.push_back(Codec::Zero(3));
  codecs.push_back(Codec::Zero(3).With(Metadata::kSingle));
  for (const Spacing spacing : AllFittedSpacings()) codecs.push_back(Codec::Zero(3).With(spacing));
  for (const Codec& codec : CastsAndGroups()) codecs.push_back(codec);
  std::erase_if(codecs, [](const Codec& codec) { return CheckCodec(codec).has_value(); });
  return codecs;
}

// kZero is for what a ReLU leaves.
std::vector<float> DataFor(const Codec& codec) {
  std::vector<float> x = Normal(kElements);
  if (codec.kind == CodecKind::kZero)
    for (float& v : x) v = std::max(v, 0.0f);
  return x;
}

TEST(ErrorModel, IsWithinATenthOfWhatIsMeasured) {
  for (const Codec& codec : Codecs()) {
    const std::vector<float> x = DataFor(codec);
    const double measured = Measured(codec, x);
    EXPECT_NEAR(ErrorVariance(codec, StatisticsOf(codec, x)) / measured, 1, .1) << ToString(codec);
    const GroupStatistics assumed = codec.kind == CodecKind::kZero ? RectifiedNormalGroups(codec.group_size)
                                                                   : NormalGroups(codec.group_size);
    EXPECT_NEAR(ErrorVariance(codec, assumed) / measured, 1, .1)
        << ToString(codec) << ", from the distribution alone";
  }
}

TEST(ErrorModel, HoldsForOtherMeansAndScales) {
  std::vector<float> x = Normal(kElements, .02f);
  for (float& v : x) v += .03f;
  for (const Codec& codec : {Codec::Uniform(2), Codec::Uniform(3, 256, Rounding::kDither), Codec::Sign(3, 2),
                             Codec::Uniform(4, 256, Rounding::kDither).With(Metadata::kSingle)}) {
    const double measured = Measured(codec, x);
    EXPECT_NEAR(ErrorVariance(codec, StatisticsOf(codec, x)) / measured, 1, .1) << ToString(codec);
    EXPECT_NEAR(ErrorVariance(codec, NormalGroups(256, .03, .02)) / measured, 1, .1) << ToString(codec);
  }
}

TEST(ErrorModel, IsZeroForWhatIsExact) {
  EXPECT_EQ(ErrorVariance(Codec::Mask(), NormalGroups(256)), 0);
  EXPECT_EQ(ErrorVariance(Codec::Index(4), NormalGroups(256)), 0);
  EXPECT_EQ(ErrorVariance(Codec::Uniform(3), GroupStatistics{}), 0);
}

TEST(ErrorModel, DISABLED_Table) {
  std::printf("| codec | bits | data | modelled | measured |\n|---|---|---|---|---|\n");
  for (const Codec& codec : Codecs()) {
    const bool zero = codec.kind == CodecKind::kZero;
    const double model =
        ErrorVariance(codec, zero ? RectifiedNormalGroups(codec.group_size) : NormalGroups(codec.group_size));
    std::printf("| `%s` | %.3f | %s | %.2e | %.2e |\n", ToString(codec).c_str(), BitsPerElement(codec),
                zero ? "ReLU of normal" : "normal", model, Measured(codec, DataFor(codec)));
  }
}

}  // namespace
}  // namespace act
