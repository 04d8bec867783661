// Levels that are no power of two: several codes to a number.
#include <gtest/gtest.h>

#include <set>

#include "kernels/math/level_scale.h"
#include "tests/unit/codec_testing.h"

namespace act {
namespace {

TEST(CodePacking, IsNeverLessDenseThanAPowerOfTwoAndNearTheBound) {
  for (int levels = 2; levels <= kMostLevels; ++levels) {
    const CodePacking packing = CodePackingOf(levels);
    const double bits = static_cast<double>(packing.bits) / packing.codes;
    EXPECT_LE(bits, BitsOfLevels(levels)) << levels;
    // All of them fit.
    EXPECT_LE(std::pow(levels, packing.codes), std::exp2(packing.bits)) << levels;
    EXPECT_LE(bits, 1.09 * std::log2(levels)) << levels;
  }
  EXPECT_EQ(CodePackingOf(5).codes, 3);
  EXPECT_EQ(CodePackingOf(5).bits, 7);
  // 3 in 8 bits at most.
  EXPECT_LT(BitsPerElement(Codec::Uniform(3).OfLevels(6)), 2 + 2. / 3 + .125 + .01);
  EXPECT_EQ(CodePackingOf(8).codes, 1);
}

// A dithered position comes back within half a step, whatever it is: a code that is read wrong does not.
void ExpectWithinHalfAStep(const Codec& codec, const std::vector<float>& x) {
  const std::vector<uint8_t> code = Encode(codec, x, {3, 1, 4});
  std::vector<float> y(x.size());
  DecodeSampleReference(codec, {3, 1, 4}, 0, static_cast<int64_t>(x.size()), code.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = i / static_cast<size_t>(codec.group_size);
    const GroupScale scale =
        LoadGroupScale(codec, code.data() + g * static_cast<size_t>(MetadataBytes(codec)));
    const float step = codec.kind == CodecKind::kSign && x[i] <= 0 ? scale.below : scale.scale;
    // The position is kept to 2^-17 of a step, beside float32's own rounding of sums with a minimum of 8 at
    // most.
    ASSERT_LE(std::fabs(y[i] - x[i]), (.5f + 0x1p-16f) * step + 1e-6f)
        << ToString(codec) << ", element " << i;
  }
}

TEST(CodePacking, EveryLevelCountFrom2To256HoldsItsCodes) {
  for (int levels = 2; levels <= kMostLevels; ++levels) {
    const Codec uniform = Codec::Uniform(1, 256, Rounding::kDither).OfLevels(levels);
    for (int64_t elements : {1, 2, 255, 256, 300, 700}) {
      const std::vector<float> x = Normal(elements, 2, static_cast<unsigned>(levels));
      ExpectWithinHalfAStep(uniform, x);
      if (levels < 4) continue;
      Codec sign = Codec::Sign(2, 2, 64).OfLevels(levels);
      sign.below = std::max(2, levels / 3);
      ExpectWithinHalfAStep(sign, x);
    }
  }
}

TEST(CodePacking, TilesEqualTheReferenceOnEveryInstructionSet) {
  std::vector<Codec> codecs;
  for (int levels : {3, 5, 6, 7, 9, 11, 13, 17, 33, 40, 65, 90, 129, 181, 255})
    for (int64_t group : {64, 256, 1024}) {
      codecs.push_back(Codec::Uniform(1, group, Rounding::kDither).OfLevels(levels));
      codecs.push_back(Codec::Uniform(1, group).OfLevels(levels));
      codecs.push_back(Codec::Zero(2, group).OfLevels(levels));
      if (levels > 4) codecs.push_back(Codec::Sign(3, 2, group).OfLevels(levels));
    }
  codecs.push_back(Codec::Sign(3, 3, 256, Rounding::kNearest).OfLevels(6));
  ForEachTarget([&codecs] {
    for (const Codec& codec : codecs)
      for (int64_t elements : {1, 7, 64, 257, 511, 1024, 2500}) {
        std::vector<float> x = Normal(elements, 3, static_cast<unsigned>(elements));
        if (elements > 500) std::fill(x.begin() + 64, x.begin() + 128, 0.0f);
        if (elements > 2000) x[1700] = kNaN;
        ExpectSameCode(codec, x, elements % 7);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST(CodePacking, MoreGroupsThanSixteenBitsCount) {
  ExpectSameCode(Codec::Uniform(3, 64, Rounding::kDither).OfLevels(5), Normal(66000 * 64 + 13), 1);
}

}  // namespace
}  // namespace act
