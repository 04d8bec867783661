// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): the
// order of a data set and random inputs. The streams of a step (dropout, rounding) are Philox, in
// kernels/math.
#pragma once

#include <cstdint>

namespace act {

inline uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class SplitMix64 {
 public:
  // One stream for each pair.
  SplitMix64(uint64_t seed, uint64_t stream) : state_(Mix64(seed) ^ Mix64(stream + 0x632be59bd9b4e019u)) {}
  uint64_t Next() { return Mix64(state_ += 0x9e3779b97f4a7c15u); }
  // Uniform in [0, bound), bound >= 1; biased by less than bound / 2^64.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace act
