// The 16 random bits with which an element's position is rounded, and what decode does with them.
//
// A position t >= 0 between levels is held as round(2^16 t). Its code is floor(t + u), where
// u = bits / 2^16.
//   stochastic  u is uniform: independent bits of a Philox sequence.
//   dither      u = (j + 1/2) / 128, with j in 0..127 from a Weyl sequence:
//               j_i = floor(128 frac(i phi + start)), with phi = .618 and a random start for each
//               group. Decode turns the code q into q - u + 1/2. The error t - (q - u + 1/2) is
//               uniform in -1/2..1/2 for every t (Schuchman 1964). The grid of u leaves a bias of
//               at most 1/256 of a step.
//   nearest     u = 1/2
// Decoded positions are counted in 1/256 of a level. They are whole numbers of 17 bits, so their
// product with a scale of 8 bits is exact in float32.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"
#include "kernels/math/random.h"

namespace act {

inline constexpr uint32_t kWeylStep = 40503;  // 2^16 / golden ratio, odd
inline constexpr uint32_t kNearestBits = 0x8000;

// The 16-bit start of the Weyl sequence of a group. One random call serves eight groups. `number`
// counts the group among those of all samples. `call` is call number / 8 of the stream, of whose words
// it takes one.
ACT_HOST_DEVICE inline uint32_t WordOfStart(uint64_t number) { return number % 8 / 2; }
ACT_HOST_DEVICE inline uint32_t DitherStart(uint32_t word, uint64_t number) {
  return number % 2 == 0 ? word & 0xFFFFu : word >> 16;
}
ACT_HOST_DEVICE inline uint32_t DitherStart(const RandomWords& call, uint64_t number) {
  return DitherStart(call.word[WordOfStart(number)], number);
}
ACT_HOST_DEVICE inline uint32_t DitherStart(const RandomStream& s, int64_t sample, int64_t groups,
                                            int64_t group) {
  const uint64_t number =
      static_cast<uint64_t>(sample) * static_cast<uint64_t>(groups) + static_cast<uint64_t>(group);
  return DitherStart(RandomCall(s, number / 8), number);
}

// The bits of element i of a group whose sequence starts at `start`.
ACT_HOST_DEVICE inline uint32_t DitherBits(uint32_t start, int64_t i) {
  return ((start + static_cast<uint32_t>(i) * kWeylStep) & 0xFE00u) | 0x100u;
}

// 256 (1/2 - u), for an element that was rounded with dither.
ACT_HOST_DEVICE inline int32_t DitherOffset(uint32_t bits) {
  return 127 - 2 * static_cast<int32_t>(bits >> 9);
}

}  // namespace act
