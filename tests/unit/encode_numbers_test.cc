#include "runtime/codec/encode_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/codec.h"

namespace act {
namespace {

const Codec kCodecs[] = {
    Codec::Uniform(8, 256, Rounding::kNearest), Codec::Uniform(4, 64, Rounding::kNearest),
    Codec::Uniform(4, 64, Rounding::kNearest).With(Metadata::kLogPair), Codec::Cast(kBFloat16)};

// Like weights: normal, but for one that is far away.
std::vector<float> Numbers(int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& v : x) {
    float sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-24f;
    v = sum * .02f;
  }
  x[x.size() / 2] = -.7f;
  return x;
}

std::vector<uint8_t> Encoded(const Codec& codec, const std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<uint8_t> code(static_cast<size_t>(LayoutOf(codec, count).sample_bytes), 0xFF);
  // From an address that no float may have: files do not align their tensors.
  std::vector<std::byte> bytes(x.size() * sizeof(float) + 1);
  std::memcpy(bytes.data() + 1, x.data(), x.size() * sizeof(float));
  EncodeNumbers(codec, bytes.data() + 1, count, std::as_writable_bytes(std::span(code)));
  return code;
}

TEST(EncodeNumbers, WritesWhatKernelsWrite) {
  for (const Codec& codec : kCodecs)
    for (const int64_t count : {1, 7, 63, 64, 65, 255, 256, 257, 1000, 4096}) {
      const std::vector<float> x = Numbers(count);
      std::vector<uint8_t> expected(static_cast<size_t>(LayoutOf(codec, count).sample_bytes));
      EncodeSampleReference(codec, {}, 0, count, x.data(), expected.data());
      EXPECT_EQ(Encoded(codec, x), expected) << ToString(codec) << ", " << count << " numbers";
    }
}

TEST(EncodeNumbers, IsWithinHalfAStep) {
  const std::vector<float> x = Numbers(4096);
  for (const Codec& codec : kCodecs) {
    std::vector<float> back(x.size());
    DecodeSampleReference(codec, {}, 0, 4096, Encoded(codec, x).data(), back.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t group = i / static_cast<size_t>(codec.group_size) * static_cast<size_t>(codec.group_size);
      const auto [low, high] =
          std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(group),
                              x.begin() + static_cast<std::ptrdiff_t>(group + codec.group_size));
      // A scale is rounded up by at most 1/16 (8-bit logarithms), and so is the range by the minimum, rounded down.
      const float step = codec.IsCast()
                             ? std::abs(x[i]) / 128
                             : (*high - *low + std::abs(*low) / 64) / static_cast<float>(codec.levels - 1);
      EXPECT_LE(std::abs(back[i] - x[i]), .5f * step * 1.0625f) << ToString(codec) << " at " << i;
    }
  }
}

TEST(EncodeNumbers, NumbersThatAreNotFiniteStayNotFinite) {
  for (const Codec& codec : kCodecs)
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = Numbers(512), back(512);
      x[300] = bad;
      DecodeSampleReference(codec, {}, 0, 512, Encoded(codec, x).data(), back.data());
      EXPECT_FALSE(std::isfinite(back[300])) << ToString(codec);
      EXPECT_TRUE(std::isfinite(back[0])) << ToString(codec) << ": the other group";
    }
}

TEST(EncodeNumbers, KnowsWhichCodesDependOnNumbersAlone) {
  for (const Codec& codec : kCodecs) EXPECT_TRUE(EncodesNumbers(codec)) << ToString(codec);
  for (const Codec& codec :
       {Codec::Uniform(4, 64, Rounding::kDither), Codec::Uniform(4, 64), Codec::Mask(),
        Codec::Sign(4, 8, 64, Rounding::kNearest), Codec(), Codec::Cast({5, 10}),
        Codec::Uniform(4, 64, Rounding::kNearest).OfLevels(5), Codec::Uniform(4, 60, Rounding::kNearest)})
    EXPECT_FALSE(EncodesNumbers(codec)) << ToString(codec);
}

}  // namespace
}  // namespace act
