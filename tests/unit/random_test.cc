#include "kernels/math/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/code_tile.h"
#include "tests/unit/each_target.h"

namespace act {
namespace {

const RandomStream kStream{0xA4093822299F31D0, 0x85A308D3, 0x13198A2E};

TEST(Random, IsPhiloxWithTheDocumentedCounter) {
  // Random123's known answers for philox4x32-10 (its kat_vectors): counter and key all zero, and
  // the digits of pi.
  const RandomWords zero = RandomCall({}, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  const RandomWords pi = RandomCall({0x299f31d0a4093822, 0x13198a2e, 0x03707344}, 0x85a308d3243f6a88);
  EXPECT_EQ(pi.word[0], 0xd16cfe09u);
  EXPECT_EQ(pi.word[1], 0x94fdccebu);
  EXPECT_EQ(pi.word[2], 0x5001e420u);
  EXPECT_EQ(pi.word[3], 0x24126ea1u);
}

TEST(Random, VectorsOfCallsEqualSingleCallsOnEveryInstructionSet) {
  ForEachTarget([] {
    for (uint64_t first : {uint64_t{0}, uint64_t{16} * 12345, (uint64_t{1} << 32) - 16, uint64_t{77} << 36}) {
      uint32_t words[2 * 64];
      RandomRows(kStream, first, 2, words);
      for (uint64_t call = 0; call < 32; ++call)
        for (uint64_t w = 0; w < 4; ++w)
          ASSERT_EQ(words[call / 16 * 64 + w * 16 + call % 16], RandomCall(kStream, first + call).word[w])
              << "call " << first << " + " << call << ", word " << w;
    }
  });
}

TEST(Random, ElementsOfASampleTakeDistinctBits) {
  // Each element's (call, word) for Random32, and (call, word, byte) for Random16, over two samples
  // with a short last block.
  std::vector<uint32_t> seen;
  for (int64_t sample = 0; sample < 2; ++sample)
    for (int64_t e = 0; e < 100; ++e) seen.push_back(Random32(kStream, sample, 100, e));
  std::sort(seen.begin(), seen.end());
  // 200 draws of 32 bits: a collision has probability 5e-6.
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(Random, SixteenBitNumbersAreUniformInEveryByteAndHardlyCorrelated) {
  constexpr int64_t kCount = 1 << 20;
  std::vector<double> high(256, 0), low(256, 0);
  double neighbours = 0, same_word = 0, mean = 0;
  for (int64_t e = 0; e < kCount; ++e) {
    const uint32_t u = Random16(kStream, 3, kCount, e);
    ASSERT_LT(u, 65536u);
    ++high[u >> 8];
    ++low[u & 255];
    const auto centred = [](uint32_t x) { return (x + 0.5) / 65536 - 0.5; };
    mean += centred(u);
    if (e % 64 < 48) {
      neighbours += centred(u) * centred(Random16(kStream, 3, kCount, e + 1));
      same_word += centred(u) * centred(Random16(kStream, 3, kCount, e + 16));
    }
  }
  // Chi-squared with 255 degrees of freedom: mean 255, deviation 22.6; six deviations.
  for (const auto& counts : {high, low}) {
    double chi = 0;
    for (double n : counts) chi += (n - kCount / 256.0) * (n - kCount / 256.0) / (kCount / 256.0);
    EXPECT_LT(chi, 255 + 6 * 22.6);
  }
  // Deviations: 2.8e-4 of the mean, sqrt(1/12 / 2^20), and 1.13e-3 of a correlation (relative to
  // 1/12), 1/sqrt(0.75 2^20).
  EXPECT_LT(std::fabs(mean / kCount), 6 * 2.8e-4);
  EXPECT_LT(std::fabs(neighbours * 12 / (0.75 * kCount)), 6 * 1.13e-3);
  // The shared byte correlates elements 16 apart by 2^-8.
  EXPECT_NEAR(same_word * 12 / (0.75 * kCount), 1.0 / 256, 6 * 1.13e-3);
}

TEST(Random, DropoutThresholdKeepsTheComplement) {
  EXPECT_EQ(DropoutThreshold(0), 0u);
  EXPECT_EQ(DropoutThreshold(0.5f), 0x80000000u);
  EXPECT_EQ(DropoutThreshold(0.25f), 0x40000000u);
}

}  // namespace
}  // namespace act
