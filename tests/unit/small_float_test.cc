// Casts to 16 and 8 bits, compared with the definition of the formats: every code's value, and the
// nearest of all values.
#include "kernels/math/small_float.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/casts.h"
#include "tests/unit/codec_testing.h"

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

TEST(Cast, FormatsHaveTheirPublishedLimits) {
  EXPECT_EQ(ValueOf(FormatOf(CodecKind::kFloat16), FormatOf(CodecKind::kFloat16).largest), 65504);
  EXPECT_EQ(ValueOf(FormatOf(CodecKind::kFloat8E4M3), FormatOf(CodecKind::kFloat8E4M3).largest), 448);
  EXPECT_EQ(ValueOf(FormatOf(CodecKind::kFloat8E5M2), FormatOf(CodecKind::kFloat8E5M2).largest), 57344);
  EXPECT_EQ(ValueOf(FormatOf(CodecKind::kFloat8E4M3), 1), 0x1p-9);
  EXPECT_EQ(ValueOf(FormatOf(CodecKind::kFloat8E5M2), 1), 0x1p-16);
  EXPECT_EQ(ValueOf(FormatOf(CodecKind::kFloat16), 1), 0x1p-24);
}

TEST(Cast, EveryCodeDecodesToItsValueAndBack) {
  for (const CodecKind kind : AllCasts()) {
    const SmallFloat f = FormatOf(kind);
    for (uint32_t code = 0; code < 1u << f.Bits(); ++code) {
      const uint32_t magnitude = code & ((1u << (f.Bits() - 1)) - 1);
      const float value = DecodeSmallFloat(f, code);
      if (magnitude > f.largest) {
        EXPECT_EQ(std::isinf(value), magnitude == f.infinity && f.infinity != f.nan) << code;
        EXPECT_FALSE(std::isfinite(value)) << code;
        continue;
      }
      ASSERT_EQ(static_cast<double>(value), ValueOf(f, code))
          << ToString(Codec::Cast(kind)) << ", code " << code;
      ASSERT_EQ(EncodeSmallFloat(f, value), code) << ToString(Codec::Cast(kind));
    }
  }
}

TEST(Cast, RoundsToTheNearestAndTiesToEven) {
  for (const CodecKind kind : AllCasts()) {
    const SmallFloat f = FormatOf(kind);
    for (uint32_t code = 0; code < f.largest; ++code) {
      const double low = ValueOf(f, code), high = ValueOf(f, code + 1);
      // One more bit than the format: exact.
      const auto middle = static_cast<float>((low + high) / 2);
      const uint32_t even = code % 2 == 0 ? code : code + 1;
      ASSERT_EQ(EncodeSmallFloat(f, middle), even) << ToString(Codec::Cast(kind)) << " of " << middle;
      ASSERT_EQ(EncodeSmallFloat(f, std::nextafter(middle, 0.0f)), code) << middle;
      ASSERT_EQ(EncodeSmallFloat(f, std::nextafter(middle, kInf)), code + 1) << middle;
      ASSERT_EQ(EncodeSmallFloat(f, -middle), even | 1u << (f.Bits() - 1)) << middle;
    }
  }
}

TEST(Cast, SaturatesAndShowsWhatIsNotFinite) {
  for (const CodecKind kind : AllCasts()) {
    const float largest = DecodeSmallFloat(FormatOf(kind), FormatOf(kind).largest);
    const std::vector<float> y =
        RoundTrip(Codec::Cast(kind), {3.4e38f, -3.4e38f, kInf, -kInf, kNaN, 1e-45f, -0.0f});
    EXPECT_EQ(y[0], largest) << ToString(Codec::Cast(kind));
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
    for (const CodecKind kind : AllCasts())
      for (int64_t elements : {1, 7, 16, 255, 256, 300, 1024, 5000}) {
        std::vector<float> x(static_cast<size_t>(elements));
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = i % 2 == 0 ? FloatOf(random())
                            : std::ldexp(static_cast<float>(random()) * 0x1p-31f - 1,
                                         static_cast<int>(random() % 40) - 24);
        ExpectSameCode(Codec::Cast(kind), x, 2);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

}  // namespace
}  // namespace act
