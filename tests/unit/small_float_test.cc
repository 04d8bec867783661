// Casts to 16 and 8 bits, compared with the definition of the formats: every code's value, and the
// nearest of all values.
#include "kernels/math/small_float.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/codec_testing.h"
#include "tests/unit/row_codecs.h"

namespace act {
namespace {

// sign, exponent e with bias b, mantissa m of p bits: 2^(e - b) (1 + m / 2^p), and 2^(1 - b) m /
// 2^p where e = 0.
double ValueOf(const SmallFloat& f, uint32_t code) {
  const int mantissa = static_cast<int>(code & ((1u << f.mantissa_bits) - 1));
  const int exponent = static_cast<int>(code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits) + (exponent > 0 ? 1 : 0);
  return std::ldexp(fraction, std::max(exponent, 1) - f.Bias()) * (code >> (f.Bits() - 1) & 1 ? -1 : 1);
}

SmallFloat FormatNamed(const std::string& name) {
  for (const Codec& cast : AllCasts())
    if (ToString(cast) == name) return cast.cast;
  ADD_FAILURE() << "no cast " << name;
  return {};
}

TEST(Cast, FormatsHaveTheirPublishedLimits) {
  const SmallFloat e4m3 = FormatNamed("fp8e4m3"), e5m2 = FormatNamed("fp8e5m2");
  EXPECT_EQ(ValueOf(kFloat16, kFloat16.Largest()), 65504);
  EXPECT_EQ(ValueOf(e4m3, e4m3.Largest()), 448);
  EXPECT_EQ(ValueOf(e5m2, e5m2.Largest()), 57344);
  EXPECT_EQ(ValueOf(e4m3, 1), 0x1p-9);
  EXPECT_EQ(ValueOf(e5m2, 1), 0x1p-16);
  EXPECT_EQ(ValueOf(kFloat16, 1), 0x1p-24);
  // Codes of infinity and of the quiet NaN.
  EXPECT_EQ(kFloat16.Infinity(), 0x7C00u);
  EXPECT_EQ(kFloat16.NaN(), 0x7E00u);
  EXPECT_EQ(kBFloat16.Largest(), 0x7F7Fu);
  EXPECT_EQ(kBFloat16.NaN(), 0x7FC0u);
  EXPECT_EQ(e4m3.NaN(), 0x7Fu);
  EXPECT_EQ(e4m3.Infinity(), 0x7Fu);
  EXPECT_EQ(e5m2.Infinity(), 0x7Cu);
  EXPECT_EQ(e5m2.NaN(), 0x7Eu);
}

TEST(Cast, EveryCodeDecodesToItsValueAndBack) {
  for (const Codec& cast : AllCasts()) {
    const SmallFloat f = cast.cast;
    for (uint32_t code = 0; code < 1u << f.Bits(); ++code) {
      const uint32_t magnitude = code & ((1u << (f.Bits() - 1)) - 1);
      const float value = DecodeSmallFloat(f, code);
      if (magnitude > f.Largest()) {
        EXPECT_EQ(std::isinf(value), magnitude == f.Infinity() && f.infinities) << code;
        EXPECT_FALSE(std::isfinite(value)) << code;
        continue;
      }
      ASSERT_EQ(static_cast<double>(value), ValueOf(f, code)) << ToString(cast) << ", code " << code;
      ASSERT_EQ(EncodeSmallFloat(f, value), code) << ToString(cast);
    }
  }
}

// 0 / 0 is negative on x86, positive on a card, and codes have the same bytes on both.
TEST(Cast, NaNHasOneCode) {
  for (const Codec& cast : AllCasts())
    for (const uint32_t nan : {0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0xFF800001u})
      EXPECT_EQ(EncodeSmallFloat(cast.cast, FloatOf(nan)), cast.cast.NaN()) << ToString(cast);
}

TEST(Cast, RoundsToTheNearestAndTiesToEven) {
  for (const Codec& cast : AllCasts()) {
    const SmallFloat f = cast.cast;
    for (uint32_t code = 0; code < f.Largest(); ++code) {
      const double low = ValueOf(f, code), high = ValueOf(f, code + 1);
      // One more bit than the format: exact.
      const auto middle = static_cast<float>((low + high) / 2);
      const uint32_t even = code % 2 == 0 ? code : code + 1;
      ASSERT_EQ(EncodeSmallFloat(f, middle), even) << ToString(cast) << " of " << middle;
      ASSERT_EQ(EncodeSmallFloat(f, std::nextafter(middle, 0.0f)), code) << middle;
      ASSERT_EQ(EncodeSmallFloat(f, std::nextafter(middle, kInf)), code + 1) << middle;
      ASSERT_EQ(EncodeSmallFloat(f, -middle), even | 1u << (f.Bits() - 1)) << middle;
    }
  }
}

TEST(Cast, SaturatesAndShowsWhatIsNotFinite) {
  for (const Codec& cast : AllCasts()) {
    const float largest = DecodeSmallFloat(cast.cast, cast.cast.Largest());
    const std::vector<float> y = RoundTrip(cast, {3.4e38f, -3.4e38f, kInf, -kInf, kNaN, 1e-45f, -0.0f});
    EXPECT_EQ(y[0], largest) << ToString(cast);
    EXPECT_EQ(y[1], -largest);
    EXPECT_FALSE(std::isfinite(y[2]));
    EXPECT_FALSE(std::isfinite(y[3]));
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[5], 0);
    EXPECT_EQ(y[6], 0);
  }
}

TEST(Cast, TilesEqualTheReferenceOnEveryInstructionSet) {
  // Floats of any bits: normal, denormal, infinite, NaN.
  std::mt19937 random(3);
  ForEachTarget([&random] {
    for (const Codec& cast : AllCasts())
      for (int64_t elements : {1, 7, 16, 255, 256, 300, 1024, 5000}) {
        std::vector<float> x(static_cast<size_t>(elements));
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = i % 2 == 0 ? FloatOf(random())
                            : std::ldexp(static_cast<float>(random()) * 0x1p-31f - 1,
                                         static_cast<int>(random() % 40) - 24);
        ExpectSameCode(cast, x, 2);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

}  // namespace
}  // namespace act
