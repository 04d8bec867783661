// Random numbers for dropout and stochastic rounding. They are a pure function of (seed, step,
// stream, element), so that a backward pass regenerates what the forward pass used and a resumed
// run repeats itself to the bit.
//
// The generator is Philox4x32-10 (philox.h).
//   key     = seed (low word, high word)
//   counter = (call, low word; call, high word; step, low word; stream)
// One call gives four words. Elements are numbered within their sample, and samples as in
// CodeSamplesOf. A row of 16 calls, one per SIMD lane, serves a block of consecutive elements. So a
// vector of 16 elements takes one word of each call:
//   Random32: a block is  64 elements. call = 16 (sample B + e / 64) + e % 16,  word (e % 64) / 16
//   Random16: a block is 256 elements. call = 16 (sample B + e / 256) + e % 16,
//                                     word (e % 256) / 64, 16 bits of it
// where B is the number of blocks in a sample (the last one may be short).
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"
#include "kernels/math/philox.h"

namespace act {

inline constexpr int kRandomLanes = 16;         // calls that serve one block
inline constexpr int64_t kRandom32Block = 64;   // elements of a block if each takes 32 bits
inline constexpr int64_t kRandom16Block = 256;  // elements of a block if each takes 16 bits

// Names one sequence. No two uses of randomness in a step share a stream.
struct RandomStream {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t stream = 0;
  bool operator==(const RandomStream&) const = default;
};

ACT_HOST_DEVICE inline RandomWords RandomCall(const RandomStream& s, uint64_t call) {
  const RandomWords counter = {{static_cast<uint32_t>(call), static_cast<uint32_t>(call >> 32),
                                static_cast<uint32_t>(s.step), s.stream}};
  return Philox(counter, static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.seed >> 32));
}

// The first call of the block that holds element e of `sample`.
ACT_HOST_DEVICE inline uint64_t FirstCall(int64_t block, int64_t sample, int64_t elements_per_sample,
                                          int64_t e) {
  const uint64_t blocks = (static_cast<uint64_t>(elements_per_sample) + block - 1) / block;
  return (static_cast<uint64_t>(sample) * blocks + static_cast<uint64_t>(e / block)) * kRandomLanes;
}

// 32 uniform bits of element e of `sample`.
ACT_HOST_DEVICE inline uint32_t Random32(const RandomStream& s, int64_t sample, int64_t elements_per_sample,
                                         int64_t e) {
  const uint64_t call =
      FirstCall(kRandom32Block, sample, elements_per_sample, e) + static_cast<uint64_t>(e % 16);
  return RandomCall(s, call).word[e % kRandom32Block / 16];
}

// The element of sample 0 that Random32 gives the word `w` (0..3) of a call.
ACT_HOST_DEVICE inline int64_t ElementOfWord32(int64_t call, int w) {
  return call / kRandomLanes * kRandom32Block + w * kRandomLanes + call % kRandomLanes;
}

// The 16-bit number `k` (0..3) of a word: bytes k and k + 1 (mod 4), little-endian. Each of the
// four shares a byte with the next. Each one is exactly uniform, which is what an unbiased rounding
// needs. Neighbours in a word (elements 16 apart) correlate only through the shared byte, which is
// the high byte of one and the low byte of the other.
ACT_HOST_DEVICE inline uint32_t SubWord16(uint32_t word, int k) {
  return (k == 0 ? word : (word >> (8 * k)) | (word << (32 - 8 * k))) & 0xFFFFu;
}

// 16 uniform bits of element e of `sample`.
ACT_HOST_DEVICE inline uint32_t Random16(const RandomStream& s, int64_t sample, int64_t elements_per_sample,
                                         int64_t e) {
  const uint64_t call =
      FirstCall(kRandom16Block, sample, elements_per_sample, e) + static_cast<uint64_t>(e % 16);
  const int64_t in_block = e % kRandom16Block;
  return SubWord16(RandomCall(s, call).word[in_block / 64], static_cast<int>(in_block % 64 / 16));
}

// Dropout keeps an element if its 32 random bits are at least this: P(keep) = 1 - probability, to
// within 2^-32.
ACT_HOST_DEVICE inline uint32_t DropoutThreshold(float probability) {
  return static_cast<uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace act
