// The forms of a group's metadata. Rounding goes outwards, and both sides use the stored numbers.
#include "kernels/math/level_scale.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/codec_testing.h"

namespace act {
namespace {

float OfLog(int e) { return FloatFromBFloat16(BFloat16OfLog(static_cast<uint8_t>(e))); }

TEST(LogScale, HasSixteenStepsAnOctaveInTheMiddle) {
  for (int e = 1; e < 255; ++e) ASSERT_GT(OfLog(e), OfLog(e - 1)) << e;
  for (int e = 32; e < 224; ++e) {
    const double exact = std::exp2((e - 32) / 16. - 9);
    EXPECT_GE(OfLog(e), exact) << e;
    EXPECT_LE(OfLog(e), exact * (1 + 0x1p-7)) << e;  // its mantissa has 7 bits, rounded up
  }
  EXPECT_TRUE(std::isnan(OfLog(255)));
}

TEST(LogScale, IsTheLeastAtOrAboveEveryScale) {
  // Every bf16 number from 2^-100 to 2^123.
  for (uint32_t bits = (127 - 100) << 7; bits <= (127 + 123) << 7; ++bits) {
    const float scale = FloatFromBFloat16(static_cast<uint16_t>(bits));
    const int e = LogAbove(static_cast<uint16_t>(bits));
    ASSERT_GT(e, 0);
    ASSERT_GE(OfLog(e), scale) << scale;
    ASSERT_LT(OfLog(e - 1), scale) << scale;
  }
}

constexpr Metadata kForms[] = {Metadata::kPair, Metadata::kLogPair, Metadata::kSingle, Metadata::kLogSingle,
                               Metadata::kSides};

std::vector<Codec> CodecsOfEveryForm() {
  std::vector<Codec> codecs;
  for (const Metadata form : kForms)
    for (const Codec& codec : {Codec::Uniform(2, 256, Rounding::kDither), Codec::Uniform(1),
                               Codec::Uniform(8, 64), Codec::Uniform(3).OfLevels(5), Codec::Sign(3, 2),
                               Codec::Sign(2, 2, 128), Codec::Zero(2), Codec::Zero(4, 512)})
      if (!CheckCodec(codec.With(form))) codecs.push_back(codec.With(form));
  return codecs;
}

TEST(Metadata, TakesTheBytesThatItSays) {
  EXPECT_EQ(CodecsOfEveryForm().size(), 4 * 8 - 2 + 2);
  const auto bytes = [](const Codec& codec) { return LayoutOf(codec, 256).metadata_bytes; };
  EXPECT_EQ(bytes(Codec::Sign(3, 2)), 4);
  EXPECT_EQ(bytes(Codec::Sign(3, 2).With(Metadata::kLogPair)), 2);
  EXPECT_EQ(bytes(Codec::Sign(3, 2).With(Metadata::kSides)), 8);
  EXPECT_EQ(bytes(Codec::Uniform(3).With(Metadata::kLogPair)), 3);
  EXPECT_EQ(bytes(Codec::Uniform(3).With(Metadata::kSingle)), 2);
  EXPECT_EQ(bytes(Codec::Uniform(3).With(Metadata::kLogSingle)), 1);
}

// The widest step that a group of this range may have.
float MostStep(const Codec& codec, float lowest, float highest) {
  const bool single = codec.metadata == Metadata::kSingle || codec.metadata == Metadata::kLogSingle;
  const bool log = codec.metadata == Metadata::kLogPair || codec.metadata == Metadata::kLogSingle;
  const float most = std::max(std::fabs(lowest), std::fabs(highest));
  const int steps = codec.kind == CodecKind::kSign   ? std::min(codec.below, codec.LevelsAbove()) - 1
                    : codec.kind == CodecKind::kZero ? codec.levels - 2
                                                     : codec.levels - 1;
  // A minimum rounded to bf16 adds 2^-7 of itself; single metadata takes both sides.
  const float range = codec.kind == CodecKind::kSign ? most
                      : single                       ? 2 * most
                                                     : highest - lowest + most / 128;
  const float exact = std::max(range / static_cast<float>(steps) * (1 + 0x1p-6f), 0x1p-100f);
  return log ? 16 * exact : exact;  // the coarse ends of the logarithm
}

TEST(Metadata, GroupsOfEveryMagnitudeComeBackWithinAStep) {
  for (const Codec& codec : CodecsOfEveryForm())
    for (float scale : {1e-45f, 1e-39f, 1e-30f, 1e-20f, 1e-6f, 1e-3f, 1.0f, 300.0f, 1e6f, 1e20f, 3e35f})
      for (float sides : {0.0f, 1.0f, -1.0f}) {  // both, above 0 alone, below 0 alone
        std::vector<float> x = Normal(300);
        for (float& v : x) v = std::clamp(sides == 0 ? v : sides * std::fabs(v), -4.0f, 4.0f) * scale;
        const std::vector<float> y = RoundTrip(codec, x, {1, 1, 1});
        const auto [low, high] = std::minmax_element(x.begin(), x.end());
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_LE(std::fabs(x[i] - y[i]), MostStep(codec, *low, *high)) << ToString(codec) << ", " << scale;
      }
}

TEST(Metadata, CodesNeverPassTheTopLevel) {
  // Floats of any bits. The stored code is the reference's, so a code above the highest would be
  // read as another one.
  std::mt19937 random(5);
  for (const Codec& codec : CodecsOfEveryForm())
    for (int round = 0; round < 400; ++round) {
      std::vector<float> x(64);
      const int exponent = static_cast<int>(random() % 230) - 115;
      for (float& v : x) v = std::ldexp(static_cast<float>(random()) * 0x1p-31f - 1, exponent);
      if (round % 3 == 0) std::fill(x.begin() + 1, x.end(), x[0]);
      const std::vector<float> y = RoundTrip(codec, x, {9, static_cast<uint64_t>(round), 1});
      const auto [low, high] = std::minmax_element(x.begin(), x.end());
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::fabs(x[i] - y[i]), MostStep(codec, *low, *high))
            << ToString(codec) << ", 2^" << exponent;
    }
}

TEST(Metadata, ANonFiniteElementMakesItsGroupNaNAndNoOther) {
  for (const Codec& codec : CodecsOfEveryForm())
    for (float bad : {kNaN, kInf, -kInf, 2e38f, -3e38f}) {
      std::vector<float> x = Normal(1200);
      x[600] = bad;
      const std::vector<float> y = RoundTrip(codec, x);
      const size_t group = static_cast<size_t>(codec.group_size);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(std::isnan(y[i]), i / group == 600 / group)
            << ToString(codec) << ", " << i << " beside " << bad;
    }
}

TEST(Metadata, ZerosAreExactWhereALevelOrCodeIsThere) {
  const std::vector<float> zeros(300, 0.0f);
  for (const Codec& codec : {Codec::Uniform(2), Codec::Uniform(2).With(Metadata::kSingle), Codec::Zero(2),
                             Codec::Zero(2).With(Metadata::kSingle), Codec::Zero(3).With(Metadata::kLogPair)})
    EXPECT_EQ(RoundTrip(codec, zeros), zeros) << ToString(codec);
}

TEST(Metadata, EveryFormIsUnbiased) {
  std::vector<float> x = Normal(300);
  x[0] = 6;
  x[1] = -5;
  std::vector<float> positive = x;
  for (float& v : positive) v = std::max(v, 0.0f);
  for (const Metadata form : {Metadata::kLogPair, Metadata::kSingle, Metadata::kLogSingle})
    for (const Codec& codec :
         {Codec::Uniform(2), Codec::Uniform(3).OfLevels(6), Codec::Sign(3, 2, 256, Rounding::kStochastic),
          Codec::Zero(2, 256, Rounding::kStochastic)}) {
      if (CheckCodec(codec.With(form))) continue;
      ExpectUnbiased(x, codec.With(form));
      ExpectUnbiased(positive, codec.With(form));
    }
}

TEST(Metadata, TilesEqualTheReferenceOnEveryInstructionSet) {
  ForEachTarget([] {
    for (const Codec& codec : CodecsOfEveryForm())
      for (int64_t elements : {1, 64, 300, 1025, 2500}) {
        std::vector<float> x = Normal(elements, 3, static_cast<unsigned>(elements));
        if (elements > 1000) {
          for (int i = 512; i < 768; ++i) x[static_cast<size_t>(i)] = std::fabs(x[static_cast<size_t>(i)]);
          std::fill(x.begin() + 64, x.begin() + 320, 0.0f);
          x.back() = kNaN;
        }
        ExpectSameCode(codec, x, elements % 7);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

}  // namespace
}  // namespace act
