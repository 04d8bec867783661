#include "runtime/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cpu/code_tile.h"
#include "kernels/math/level_code.h"
#include "kernels/reference/codec.h"
#include "tests/unit/each_target.h"

namespace act {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const Dim N = Dim::Batch();

std::vector<float> Normal(int64_t count, float scale = 1, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(random);
  return x;
}

std::vector<uint8_t> Encode(const Codec& codec, const std::vector<float>& x, RandomStream random = {}) {
  const int64_t elements = static_cast<int64_t>(x.size());
  std::vector<uint8_t> code(static_cast<size_t>(LayoutOf(codec, elements).sample_bytes));
  EncodeSampleReference(codec, random, 0, elements, x.data(), code.data());
  return code;
}

std::vector<float> RoundTrip(const Codec& codec, const std::vector<float>& x, RandomStream random = {}) {
  const std::vector<uint8_t> code = Encode(codec, x, random);
  std::vector<float> y(x.size());
  DecodeSampleReference(codec, random, 0, static_cast<int64_t>(x.size()), code.data(), y.data());
  return y;
}

TEST(CodecSizes, AreAPolynomialInTheBatch) {
  // 3 x 5 x 100 = 1500 elements: 5 full groups and one of 220.
  const Dims dims = {N, Dim(3), Dim(5), Dim(100)};
  const auto bytes = [&dims](const Codec& codec) { return CodeType(codec, dims)->dims[0]; };
  EXPECT_EQ(bytes(Codec::Mask()), Dim(188) * N);                           // ceil(1500 / 8)
  EXPECT_EQ(bytes(Codec::Uniform(2)), Dim(6 * 4 + 5 * 64 + 2 * 28) * N);   // 400
  EXPECT_EQ(bytes(Codec::Index(4)), Dim((5 * 128 + 4 * 28) / 4 * 4) * N);  // 752
  EXPECT_EQ(bytes(Codec::Uniform(3, 64)), Dim((24 * 4 + 23 * 24 + 3 * 4 + 3) / 4 * 4) * N);
  EXPECT_EQ(CodeType(Codec::Mask(), {Dim(10)})->dims[0], Dim(4));  // rounded up to 4 bytes
  EXPECT_EQ(CodeType(Codec::Mask(), {})->dims[0], Dim(4));
  EXPECT_EQ(CodeType(Codec::Uniform(8), {N, Dim(0)})->dims[0], Dim(0));
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
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Uniform(2)), 2.125);
  EXPECT_DOUBLE_EQ(BitsPerElement(Codec::Mask()), 1);
}

TEST(CodecCheck, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(CheckCodec(Codec::Uniform(8, 1024)), std::nullopt);
  for (const Codec& wrong :
       {Codec{}, Codec{CodecKind::kMask, 2, 256}, Codec::Uniform(0), Codec::Uniform(9), Codec::Index(9),
        Codec::Uniform(2, 0), Codec::Uniform(2, 32), Codec::Uniform(2, 100), Codec::Uniform(2, 2048),
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
// -----------------------------------------------------------------------------------------------------

TEST(Uniform, ErrorIsBelowOneStepAndStepsCoverTheRange) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (float offset : {0.0f, 1000.0f, -3.0f}) {
      std::vector<float> x = Normal(256, 1, static_cast<unsigned>(bits));
      for (float& v : x) v += offset;
      const std::vector<float> y = RoundTrip(Codec::Uniform(bits), x, {5, 6, 7});
      const auto [low, high] = std::minmax_element(x.begin(), x.end());
      // Rounding to bf16 moves the minimum by at most 2^-7 of it, and widens the scale by at most 2^-7.
      const float range = *high - *low + std::fabs(*low) / 128;
      const float step = range * (1 + 1.1f / 128) / static_cast<float>((1 << bits) - 1);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_LE(std::fabs(x[i] - y[i]), step) << bits << " bits, element " << i;
    }
  }
}

// Mean of decode(encode(x)) over many steps against x, in standard errors.
void ExpectUnbiased(const std::vector<float>& x, const Codec& codec) {
  constexpr int kSteps = 4000;
  std::vector<double> sum(x.size(), 0), square(x.size(), 0);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> y = RoundTrip(codec, x, {42, static_cast<uint64_t>(step), 9});
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
      sum[i] += error;
      square[i] += error * error;
    }
  }
  double pooled = 0, scale = 0;
  const double range = *std::max_element(x.begin(), x.end()) - *std::min_element(x.begin(), x.end());
  const double step = range / ((1 << codec.bits) - 1);
  for (size_t i = 0; i < x.size(); ++i) {
    const double mean = sum[i] / kSteps,
                 deviation = std::sqrt(std::max(square[i] / kSteps - mean * mean, 0.0) / kSteps);
    // 5.5 standard errors: under 1e-4 for all 512 elements together; three events for elements so near a
    // level that the error was not seen often enough to be estimated; and 2^-17 of a step for the fixed-point
    // position.
    EXPECT_LE(std::fabs(mean), 5.5 * deviation + 3 * step / kSteps + step * 0x1p-17 + 1e-12)
        << "element " << i << " = " << x[i] << " with " << ToString(codec);
    pooled += mean;
    scale += deviation * deviation;
  }
  EXPECT_LE(std::fabs(pooled), 5 * std::sqrt(scale) + 1e-9) << ToString(codec);
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
  EXPECT_EQ(RoundTrip(Codec::Uniform(4), {1.5f}), (std::vector<float>{1.5f}));  // a group of one element
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
    // The step is never below 2^-100 (kUniformLeastScale).
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
  // 0 and 3 set the range; the rest lies at every 1/256 of the levels between. bf16 holds 3 / 3 exactly, so a
  // step is 1.
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
  // The scale is rounded up by 2^-7 at most (it holds 1 (1 + 2^-20)), and the variance with its square. A
  // uniform error's square has a standard deviation of .075: 6 standard errors are .0032.
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
      for (float v : y)
        ASSERT_NEAR(v, value, .51) << ToString(codec);  // half a step of the range 0..1 over 1 (N - 1)
    }
}

// ---- The vectorised codecs
// ---------------------------------------------------------------------------------------------

void EncodeByTiles(const Codec& codec, const RandomStream& random, int64_t sample,
                   const std::vector<float>& x, std::vector<uint8_t>& code) {
  const int64_t elements = static_cast<int64_t>(x.size());
  const CodeLayout layout = LayoutOf(codec, elements);
  code.assign(static_cast<size_t>(layout.sample_bytes) + 16, 0xEE);
  for (int64_t first = 0; first < elements; first += kTileElements)
    EncodeTile(codec, layout, random, {sample, elements, first, std::min(kTileElements, elements - first)},
               x.data() + first, code.data());
  for (size_t i = 0; i < 16; ++i) ASSERT_EQ(code[code.size() - 16 + i], 0xEE) << "wrote behind the code";
  code.resize(code.size() - 16);
}

void ExpectSameCode(const Codec& codec, const std::vector<float>& x, int64_t sample) {
  const int64_t elements = static_cast<int64_t>(x.size());
  const CodeLayout layout = LayoutOf(codec, elements);
  const RandomStream random{99, 3, 5};
  std::vector<uint8_t> code, expected(static_cast<size_t>(layout.sample_bytes));
  EncodeByTiles(codec, random, sample, x, code);
  EncodeSampleReference(codec, random, sample, elements, x.data(), expected.data());
  ASSERT_EQ(code, expected) << ToString(codec) << ", " << elements << " elements";

  std::vector<float> y(x.size() + 16, -77), decoded(x.size());
  for (int64_t first = 0; first < elements; first += kTileElements)
    DecodeTile(codec, layout, random, {sample, elements, first, std::min(kTileElements, elements - first)},
               code.data(), false, nullptr, y.data() + first);
  DecodeSampleReference(codec, random, sample, elements, code.data(), decoded.data());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(y[i] == decoded[i] || (std::isnan(y[i]) && std::isnan(decoded[i])))
        << ToString(codec) << "[" << i << "] = " << y[i] << ", reference " << decoded[i];
  for (size_t i = 0; i < 16; ++i) ASSERT_EQ(y[x.size() + i], -77) << "wrote behind the tensor";
  if (!codec.HoldsMask()) return;
  DecodeMaskReference(codec, elements, code.data(), decoded.data());
  for (int64_t first = 0; first < elements; first += kTileElements)
    DecodeTile(codec, layout, random, {sample, elements, first, std::min(kTileElements, elements - first)},
               code.data(), true, nullptr, y.data() + first);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], decoded[i]) << ToString(codec) << ", mask " << i;
}

Codec WithLevels(Codec codec, int levels) {
  codec.levels = levels;
  return codec;
}

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
  codecs.push_back(WithLevels(Codec::Uniform(3, 256, Rounding::kDither), 5));
  codecs.push_back(WithLevels(Codec::Sign(3, 2), 7));
  codecs.push_back(WithLevels(Codec::Zero(4), 11));
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
