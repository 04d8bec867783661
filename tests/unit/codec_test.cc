#include "runtime/codec/codec.h"

#include <gtest/gtest.h>

#include "kernels/math/level_code.h"
#include "runtime/codec/code_samples.h"
#include "tests/unit/codec_testing.h"

namespace act {
namespace {

const Dim N = Dim::Batch();

TEST(CodecSizes, AreAPolynomialInTheBatch) {
  // 3 x 5 x 100 = 1500 elements: 5 full groups and one of 220.
  const Dims dims = {N, Dim(3), Dim(5), Dim(100)};
  const auto bytes = [&dims](const Codec& codec) { return CodeType(codec, dims)->dims[0]; };
  // Metadata and payload are rounded up to 16 bytes each.
  const auto up = [](int64_t n) { return (n + 15) / 16 * 16; };
  const auto sample = [&up](int64_t metadata, int64_t payload) {
    return Dim(up(metadata) + up(payload)) * N;
  };
  EXPECT_EQ(bytes(Codec::Mask()), Dim(192) * N);  // ceil(1500 / 8) = 188
  EXPECT_EQ(bytes(Codec::Uniform(2)), sample(6 * 4, 5 * 64 + 2 * 28));
  EXPECT_EQ(bytes(Codec::Index(4)), sample(0, 5 * 128 + 4 * 28));
  EXPECT_EQ(bytes(Codec::Uniform(3, 64)), sample(24 * 4, 23 * 24 + 3 * 4));
  // Three codes of 5 levels take 7 bits: 256 codes are 86 numbers, the last 220 are 74. Five codes
  // of 6 levels take 13 bits, five of 3 levels take 8.
  EXPECT_EQ(bytes(Codec::Uniform(3).OfLevels(5)), sample(6 * 4, 5 * 76 + 65));
  EXPECT_EQ(bytes(Codec::Uniform(3).OfLevels(6)), sample(6 * 4, 5 * 85 + 72));
  EXPECT_EQ(bytes(Codec::Uniform(2).OfLevels(3)), sample(6 * 4, 5 * 52 + 44));
  EXPECT_EQ(bytes(Codec::Sign(3, 2).With(Metadata::kLogPair)), sample(6 * 2, 5 * 96 + 3 * 28));
  EXPECT_EQ(bytes(Codec::Cast({.exponent_bits = 5, .mantissa_bits = 2})), sample(0, 1500));
  EXPECT_EQ(CodeType(Codec::Mask(), {Dim(10)})->dims[0], Dim(16));
  EXPECT_EQ(CodeType(Codec::Mask(), {})->dims[0], Dim(16));
  EXPECT_EQ(CodeType(Codec::Uniform(8), {N, Dim(0)})->dims[0], Dim(0));
}

// Kernels of every device may read and write 16 bytes at a time.
TEST(CodecSizes, PayloadsAndSamplesBeginAtMultiplesOf16) {
  const int64_t deep = 7 * 7 * 512;  // 98 groups: 294 bytes of metadata at 3 bytes a group
  const std::vector<Codec> codecs = {Codec::Mask(),
                                     Codec::Index(3),
                                     Codec::Uniform(3),
                                     Codec::Uniform(3).With(Metadata::kLogPair),
                                     Codec::Uniform(3).With(Metadata::kLogSingle),
                                     Codec::Uniform(3).OfLevels(6).With(Metadata::kLogPair),
                                     Codec::Uniform(3, 64).OfLevels(6),
                                     Codec::Sign(3, 2).With(Metadata::kLogPair),
                                     Codec::Sign(3, 2).With(Metadata::kSides),
                                     Codec::Zero(3).OfLevels(6).With(Metadata::kSingle),
                                     Codec::Cast(kBFloat16),
                                     Codec::Cast({.exponent_bits = 5, .mantissa_bits = 2})};
  for (const Codec& codec : codecs)
    for (const int64_t elements : {int64_t{1}, int64_t{3}, int64_t{257}, int64_t{1500}, deep, deep + 1}) {
      const CodeLayout layout = LayoutOf(codec, elements);
      EXPECT_EQ(layout.payload_offset % 16, 0) << ToString(codec) << ", " << elements << " elements";
      EXPECT_EQ(layout.sample_bytes % 16, 0) << ToString(codec) << ", " << elements << " elements";
      EXPECT_GE(layout.payload_offset, layout.groups * layout.metadata_bytes) << ToString(codec);
      EXPECT_GE(layout.sample_bytes, layout.payload_offset + layout.payload_bytes) << ToString(codec);
      EXPECT_LT(layout.sample_bytes, layout.groups * layout.metadata_bytes + layout.payload_bytes + 31)
          << ToString(codec);
      // A batch of 1 is a sample, and a tensor without a batch axis is one too.
      const Dim bytes(layout.sample_bytes);
      EXPECT_EQ(CodeType(codec, {N, Dim(elements)})->dims[0].At(1), layout.sample_bytes) << ToString(codec);
      EXPECT_EQ(CodeType(codec, {Dim(elements)})->dims[0], bytes) << ToString(codec);
    }
}

TEST(CodecSizes, OfLongSamplesAreThoseOfTheirTokens) {
  const auto of = [](const Dims& dims) {
    const SampleShape shape = CodeSamplesOf(dims);
    return std::make_pair(shape.samples, shape.elements);
  };
  const auto tokens = [](int64_t count, int64_t elements) {
    return std::make_pair(Dim(0, count), Dim(elements));
  };
  EXPECT_EQ(of({Dim::Batch(), 2048, 512}), tokens(2048, 512));
  EXPECT_EQ(of({Dim::Batch(), 2048, 8, 64}), tokens(2048, 512));
  EXPECT_EQ(of({Dim(0, 2048), 512}), tokens(2048, 512)) << "as they are anyway";
  EXPECT_EQ(of({Dim(0, 3), 2048, 512}), tokens(3 * 2048, 512));
  EXPECT_EQ(of({Dim::Batch(), 2047, 512}), tokens(1, 2047 * 512));
  EXPECT_EQ(of({Dim::Batch(), 2048, 511}), tokens(1, 2048 * 511));
  EXPECT_EQ(of({Dim::Batch(), 2048 * 512}), tokens(1, 2048 * 512));
  EXPECT_EQ(of({2048, 2048, 512}), std::make_pair(Dim(1), Dim(int64_t{2048} * 2048 * 512))) << "no samples";
  // 3 groups of 3 bits, and their metadata.
  EXPECT_EQ(CodeType(Codec::Uniform(3, 256), {Dim::Batch(), 4096, 768})->dims,
            Dims{Dim(0, 4096 * (16 + 288))});
}

TEST(CodecSizes, NeedSamplesOfOneSize) {
  EXPECT_EQ(CodeType(Codec::Mask(), {Dim(3), N}), std::nullopt);
  EXPECT_EQ(CodeType(Codec::Mask(), {N, N}), std::nullopt);
}

TEST(CodecSizes, DoNotOverflow) {
  const auto type = CodeType(Codec::Uniform(8), {N, Dim(kTooLarge - 1)});
  EXPECT_TRUE(!type || type->dims[0].per_batch > 0);
}

TEST(CodecNames, SayKindBitsAndGroup) {
  EXPECT_EQ(ToString(Codec::Mask()), "mask1");
  EXPECT_EQ(ToString(Codec::Uniform(2)), "uniform2,g256");
  EXPECT_EQ(ToString(Codec::Uniform(4, 64)), "uniform4,g64");
  EXPECT_EQ(ToString(Codec::Index(8)), "index8");
  EXPECT_EQ(ToString(Codec::Uniform(3).OfLevels(5)), "uniform(5 levels),g256");
  EXPECT_EQ(ToString(Codec::Sign(3, 2).OfLevels(5).With(Metadata::kLogPair)), "sign3+2,g256,dither,log8");
  EXPECT_EQ(ToString(Codec::Zero(3, 128).Fitted()), "zero+7,g128,dither,fitted");
  EXPECT_EQ(ToString(Codec::Cast({4, 3, false})), "fp8e4m3");
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Uniform(2)), 2.125);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Mask()), 1);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Sign(3, 2).With(Metadata::kLogPair)), 3.0625);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Sign(3, 2).With(Metadata::kSides)), 3.25);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Uniform(4).With(Metadata::kSingle)), 4.0625);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Uniform(4).With(Metadata::kLogSingle)), 4.03125);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Cast(kBFloat16)), 16);
}

TEST(CodecCheck, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(CheckCodec(Codec::Uniform(8, 1024)), std::nullopt);
  for (const Codec& wrong :
       {Codec{},
        Codec{CodecKind::kMask, 2, 256},
        Codec::Uniform(0),
        Codec::Uniform(9),
        Codec::Index(9),
        Codec::Uniform(2, 0),
        Codec::Uniform(2, 32),
        Codec::Uniform(2, 100),
        Codec::Uniform(2, 2048),
        Codec::Uniform(2).OfLevels(1),
        Codec::Uniform(2).OfLevels(257),
        Codec::Sign(2, 2).OfLevels(3),
        Codec::Sign(3, 1),
        Codec::Sign(3, 7),
        Codec::Zero(1),
        Codec{CodecKind::kUniform, 3, 256, 4},
        Codec::Zero(3).With(Metadata::kLogSingle),
        Codec::Uniform(3).Fitted(),
        Codec::Uniform(5, 256, Rounding::kDither).Fitted(),
        Codec::Uniform(3).With(static_cast<Metadata>(9)),
        Codec{{.kind = CodecKind::kCast, .bits = 8, .group_size = 256, .cast = kFloat16}},
        Codec{static_cast<CodecKind>(77), 1, 256}})
    EXPECT_NE(CheckCodec(wrong), std::nullopt) << ToString(wrong);
}

TEST(Mask, IsOneWhereTheElementIsPositive) {
  const std::vector<float> x = {1, 0, -0.0f, -1, kNaN, kInf, -kInf, 1e-45f, 2};
  EXPECT_EQ(RoundTrip(Codec::Mask(), x), (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(Encode(Codec::Mask(), x)[0], 0b10100001);  // element i is bit i
}

TEST(Index, IsLosslessAndSaturates) {
  for (int bits = 1; bits <= 8; ++bits) {
    std::vector<float> x;
    for (int i = 0; i < 1000; ++i) x.push_back(static_cast<float>(i * 37 % (1 << bits)));
    EXPECT_EQ(RoundTrip(Codec::Index(bits), x), x) << bits << " bits";
  }
  EXPECT_EQ(RoundTrip(Codec::Index(2), {-1, 4, kNaN, kInf, 2.9f}), (std::vector<float>{0, 3, 0, 3, 2}));
}

// ---- Uniform codes

TEST(Uniform, ErrorIsBelowOneStepAndStepsCoverTheRange) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (float offset : {0.0f, 1000.0f, -3.0f}) {
      std::vector<float> x = Normal(256, 1, static_cast<unsigned>(bits));
      for (float& v : x) v += offset;
      const std::vector<float> y = RoundTrip(Codec::Uniform(bits), x, {5, 6, 7});
      const auto [low, high] = std::minmax_element(x.begin(), x.end());
      // Rounding to bf16 moves the minimum by at most 2^-7 of it. It widens the scale by at most
      // 2^-7.
      const float range = *high - *low + std::fabs(*low) / 128;
      const float step = range * (1 + 1.1f / 128) / static_cast<float>((1 << bits) - 1);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::fabs(x[i] - y[i]), step) << bits << " bits, element " << i;
    }
  }
}

TEST(Uniform, IsUnbiasedAtEveryElementEndsIncluded) {
  std::vector<float> x = Normal(500);
  x[0] = 10;  // an outlier that sets the range: both ends of it must come back unbiased
  x[1] = -10;
  for (int bits : {1, 2, 3, 4, 8}) ExpectUnbiased(x, Codec::Uniform(bits));
  ExpectUnbiased(x, Codec::Uniform(2, 64));
}

TEST(Uniform, IsUnbiasedOnConstantGroupsAndFarFromZero) {
  ExpectUnbiased(std::vector<float>(256, 0.1f), Codec::Uniform(2));
  ExpectUnbiased(std::vector<float>(256, -0.3f), Codec::Uniform(4));
  std::vector<float> far = Normal(256, 0.01f);
  for (float& v : far) v += 100;
  ExpectUnbiased(far, Codec::Uniform(2));
}

TEST(Uniform, GroupsOfOneValueThatBFloat16HoldsAreExact) {
  for (float value : {0.0f, -0.0f, 1.0f, -2.5f, 96.0f}) {
    const std::vector<float> x(300, value);
    EXPECT_EQ(RoundTrip(Codec::Uniform(2), x), x);
  }
  // A group of one element.
  EXPECT_EQ(RoundTrip(Codec::Uniform(4), {1.5f}), (std::vector<float>{1.5f}));
}

TEST(Uniform, ANonFiniteElementMakesItsGroupNaNAndNoOther) {
  for (float bad : {kNaN, -kNaN, kInf, -kInf, 1e38f, -3e38f}) {
    std::vector<float> x = Normal(600);
    x[300] = bad;
    const std::vector<float> y = RoundTrip(Codec::Uniform(2), x);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::isnan(y[i]), i / 256 == 1) << "element " << i << " beside " << bad;
  }
}

TEST(Uniform, TinyAndHugeRangesDecodeToWithinAStep) {
  for (float scale : {1e-45f, 1e-39f, 1e-30f, 1e-20f, 1e20f, 8e36f}) {
    std::vector<float> x = Normal(256);
    for (float& v : x) v = std::clamp(v, -4.0f, 4.0f) * scale;
    const std::vector<float> y = RoundTrip(Codec::Uniform(2), x, {1, 1, 1});
    // The step is never below 2^-100 (kLeastScale).
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(std::fabs(x[i] - y[i]), std::max(4 * scale, 0x1p-100f)) << scale;
  }
}

TEST(Uniform, DirectedRoundingNeverCrossesTheValue) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    const float x = FloatOf(random());
    if (!std::isfinite(x)) continue;
    ASSERT_LE(FloatFromBFloat16(BFloat16Below(x)), x);
    ASSERT_GE(FloatFromBFloat16(BFloat16Above(std::fabs(x))), std::fabs(x));
  }
}

// ---- Dither, sides and zeros

TEST(Dither, ErrorHasATwelfthOfAStepSquaredAtEveryPosition) {
  // 0 and 3 set the range. The other numbers lie evenly between them. bf16 holds 3 / 3 exactly, so
  // a step is 1.
  std::vector<float> x;
  for (int i = 0; i < 256; ++i) x.push_back(3 * static_cast<float>(i) / 255);
  constexpr int kSteps = 20000;
  std::vector<double> sum(x.size()), square(x.size());
  const Codec codec = Codec::Uniform(2, 256, Rounding::kDither);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> y = RoundTrip(codec, x, {7, static_cast<uint64_t>(step), 3});
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
      sum[i] += error;
      square[i] += error * error;
    }
  }
  // The scale is rounded up by at most 2^-7 (it must hold 1 + 2^-20), and the variance grows with
  // its square. The square of a uniform error has a standard deviation of .075: 6 standard errors
  // are .0032.
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(square[i] / kSteps, (1 + 0x1p-7) * (1 + 0x1p-7) / 12, .0032) << "element " << i;
    EXPECT_NEAR(sum[i] / kSteps, 0, 6 * std::sqrt(1. / 12 / kSteps) + 1. / 256) << "element " << i;
  }
}

TEST(Dither, HalvesTheVarianceOfStochasticRounding) {
  const std::vector<float> x = Normal(4096);
  double error[2] = {};
  for (const Rounding rounding : {Rounding::kStochastic, Rounding::kDither})
    for (uint64_t step = 0; step < 50; ++step) {
      const std::vector<float> y = RoundTrip(Codec::Uniform(3, 256, rounding), x, {1, step, 2});
      for (size_t i = 0; i < x.size(); ++i)
        error[rounding == Rounding::kDither] += (y[i] - x[i]) * (y[i] - x[i]);
    }
  EXPECT_NEAR(error[1] / error[0], .5,
              .03);  // s^2 / 12 against s^2 / 6 for positions spread evenly between levels
}

TEST(SignAndZero, MasksAreExactAndValuesUnbiased) {
  std::vector<float> x = Normal(500);
  x[3] = 0;
  x[4] = -0.0f;
  x[5] = 1e-30f;
  x[6] = -1e-30f;
  std::vector<float> mask(x.size()), positive;
  for (int below : {2, 3, 4}) {
    const Codec codec = Codec::Sign(3, below);
    DecodeMaskReference(codec, 500, Encode(codec, x, {1, 2, 3}).data(), mask.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(mask[i], x[i] > 0 ? 1 : 0) << i;
  }
  std::vector<float> relu = x;
  for (float& v : relu) v = std::max(v, 0.0f);
  DecodeMaskReference(Codec::Zero(3), 500, Encode(Codec::Zero(3), relu, {1, 2, 3}).data(), mask.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(mask[i], relu[i] > 0 ? 1 : 0) << i;
  const std::vector<float> y = RoundTrip(Codec::Zero(3), relu, {1, 2, 3});
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i] * (relu[i] == 0), 0) << i;
  for (const Codec& codec :
       {Codec::Sign(3, 2, 256, Rounding::kStochastic), Codec::Sign(4, 4, 64, Rounding::kStochastic)})
    ExpectUnbiased(x, codec);
  ExpectUnbiased(relu, Codec::Zero(3, 256, Rounding::kStochastic));
}

TEST(SignAndZero, ANonFiniteElementMakesItsGroupNaN) {
  for (const Codec& codec : {Codec::Sign(3, 2), Codec::Zero(3)})
    for (float bad : {kNaN, kInf, -kInf}) {
      std::vector<float> x = Normal(600);
      x[300] = bad;
      const std::vector<float> y = RoundTrip(codec, x);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(std::isnan(y[i]), i / 256 == 1) << ToString(codec) << ", " << i;
    }
}

TEST(SignAndZero, GroupsOfOneSideAndOfZerosAlone) {
  for (const Codec& codec : {Codec::Sign(3, 2), Codec::Zero(3)})
    for (float value : {0.0f, 1.0f, -1.0f}) {
      const std::vector<float> x(300, value), y = RoundTrip(codec, x, {1, 2, 3});
      // Half a step: two levels over 0..1.
      for (float v : y) ASSERT_NEAR(v, value, .51) << ToString(codec);
    }
}

// ---- The vectorised codecs

TEST(CodeTile, CodesAndValuesEqualTheReferenceOnEveryInstructionSet) {
  std::vector<Codec> codecs = {Codec::Mask()};
  for (int bits = 1; bits <= 8; ++bits) {
    codecs.push_back(Codec::Index(bits));
    for (int64_t group = 64; group <= 1024; group *= 2) {
      codecs.push_back(Codec::Uniform(bits, group));
      codecs.push_back(Codec::Uniform(bits, group, Rounding::kDither));
      if (bits > 1) codecs.push_back(Codec::Zero(bits, group));
      if (bits > 1) codecs.push_back(Codec::Sign(bits, 1 << (bits - 2) < 2 ? 2 : 1 << (bits - 2), group));
    }
    codecs.push_back(Codec::Uniform(bits, 256, Rounding::kNearest));
  }
  codecs.push_back(Codec::Sign(3, 2, 256, Rounding::kStochastic));
  codecs.push_back(Codec::Sign(3, 3, 256, Rounding::kNearest));
  codecs.push_back(Codec::Zero(2, 256, Rounding::kStochastic));
  ForEachTarget([&codecs] {
    for (const Codec& codec : codecs)
      for (int64_t elements : {1, 3, 8, 17, 63, 64, 65, 255, 256, 300, 1000, 1024, 1025, 2500, 5000}) {
        std::vector<float> x = Normal(elements, 3, static_cast<unsigned>(elements));
        if (elements > 500) {
          std::fill(x.begin() + 64, x.begin() + 128, 0.0f);
          x[70] = -0.0f;
          x[400] = kNaN;
          x.back() = -kInf;
        }
        ExpectSameCode(codec, x, elements % 7);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST(CodeTile, MoreGroupsThanSixteenBitsCount) {
  // 70,001 groups: the reference and the tiles must agree far into the sample.
  ExpectSameCode(Codec::Uniform(2, 64), Normal(70000 * 64 + 13), 1);
}

}  // namespace
}  // namespace act
