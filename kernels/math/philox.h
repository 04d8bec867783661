// Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011. Gives the same words as Random123's philox4x32, whose known answers
// tests/unit/random_test.cc checks.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace act {

inline constexpr int kPhiloxRounds = 10;
// The multipliers of words 0 and 2 of the counter, and the numbers that a round adds to the two
// words of the key.
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u, kPhiloxMultiplier2 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxKeyStep0 = 0x9E3779B9u, kPhiloxKeyStep1 = 0xBB67AE85u;

struct RandomWords {
  uint32_t word[4];
};

ACT_HOST_DEVICE constexpr RandomWords Philox(RandomWords counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter.word[0];
    const uint64_t product2 = uint64_t{kPhiloxMultiplier2} * counter.word[2];
    counter = {
        {static_cast<uint32_t>(product2 >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(product2),
         static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return counter;
}

}  // namespace act
