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

std::vector<float> Decoded(const Codec& codec, const std::vector<uint8_t>& code, int64_t count) {
  std::vector<float> back(static_cast<size_t>(count));
  DecodeSampleReference(codec, {}, 0, count, code.data(), back.data());
  return back;
}

// By the kernels' encoder, whose range is that of the group's numbers.
std::vector<uint8_t> EncodedByKernel(const Codec& codec, const std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<uint8_t> code(static_cast<size_t>(LayoutOf(codec, count).sample_bytes));
  EncodeSampleReference(codec, {}, 0, count, x.data(), code.data());
  return code;
}

// No other range is better for numbers that lie on levels. Each group has both ends of the range.
std::vector<float> NumbersOnLevels(const Codec& codec, int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto of_group = static_cast<int>(i % static_cast<size_t>(codec.group_size));
    const int level = of_group == 0 ? 0 : of_group == 1 ? codec.levels - 1 : of_group * 7 % codec.levels;
    x[i] = static_cast<float>(level) - 3;
  }
  return x;
}

TEST(EncodeNumbers, WritesWhatKernelsWrite) {
  for (const Codec& codec : kCodecs)
    for (const int64_t count : {1, 7, 63, 64, 65, 255, 256, 257, 1000, 4096, 100'000}) {
      // Only 4 bits hold a step of 1 exactly. Other scales are rounded up, and a narrower range is better.
      if (!codec.IsCast() && (codec.levels != 16 || codec.HasLogScales())) continue;
      const std::vector<float> x = codec.IsCast() ? Numbers(count) : NumbersOnLevels(codec, count);
      EXPECT_EQ(Encoded(codec, x), EncodedByKernel(codec, x)) << ToString(codec) << ", " << count;
    }
}

// A number is rounded to the nearest level, and one beyond the range to the range's end.
TEST(EncodeNumbers, IsWithinHalfAStep) {
  const std::vector<float> x = Numbers(4096);
  for (const Codec& codec : kCodecs) {
    const std::vector<float> back = Decoded(codec, Encoded(codec, x), 4096);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t group = i / static_cast<size_t>(codec.group_size) * static_cast<size_t>(codec.group_size);
      const auto first = static_cast<std::ptrdiff_t>(group), end = first + codec.group_size;
      const auto [low, high] = std::minmax_element(x.begin() + first, x.begin() + end);
      const auto [lowest, highest] = std::minmax_element(back.begin() + first, back.begin() + end);
      // A scale is rounded up by at most 1/16 (8-bit logarithms), and so is the range by the minimum, rounded down.
      const float step = codec.IsCast()
                             ? std::abs(x[i]) / 128
                             : (*high - *low + std::abs(*low) / 64) / static_cast<float>(codec.levels - 1);
      const bool beyond = !codec.IsCast() && (back[i] == *lowest || back[i] == *highest);
      const float nearest = beyond ? std::clamp(x[i], *lowest, *highest) : x[i];
      EXPECT_LE(std::abs(back[i] - nearest), .5f * step * 1.0625f) << ToString(codec) << " at " << i;
    }
  }
}

double SquaredError(const std::vector<float>& x, const std::vector<float>& back, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += std::pow(static_cast<double>(x[i]) - back[i], 2);
  return sum;
}

TEST(EncodeNumbers, TheRangeOfAGroupHasTheLeastErrorFound) {
  const std::vector<float> x = Numbers(65'536);
  for (const Codec& codec : kCodecs) {
    const std::vector<float> ours = Decoded(codec, Encoded(codec, x), 65'536);
    const std::vector<float> whole = Decoded(codec, EncodedByKernel(codec, x), 65'536);
    const auto group = static_cast<size_t>(codec.group_size);
    // The choice compares sums of float32, whose last bits may differ.
    for (size_t g = 0; g < x.size(); g += group)
      EXPECT_LE(SquaredError(x, ours, g, g + group), SquaredError(x, whole, g, g + group) * (1 + 1e-5));
    // With the best of 13 x 13 ranges the error of normal numbers is .83 of that with the whole range.
    if (codec.levels == 16 && !codec.HasLogScales()) {
      EXPECT_LE(SquaredError(x, ours, 0, x.size()), .86 * SquaredError(x, whole, 0, x.size()));
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
