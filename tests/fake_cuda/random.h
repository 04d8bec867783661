// The choices of the fake: a generator so small that a choice costs nothing (Marsaglia, "Xorshift RNGs",
// 2003).
#pragma once

#include <bit>
#include <cstdint>

namespace act::fake {

class Random {
 public:
  explicit Random(uint64_t seed) : state_((seed + 1) * 0x9E3779B97F4A7C15u | 1) {}

  uint32_t Bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }
  // 0 .. n - 1
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(uint64_t{Bits()} * n >> 32); }
  // The position of one of the bits that are set. `bits` is not 0.
  uint32_t BitOf(uint32_t bits) {
    const int turn = static_cast<int>(Bits() & 31);
    return static_cast<uint32_t>(std::countr_zero(std::rotr(bits, turn)) + turn) & 31;
  }

 private:
  uint64_t state_;
};

}  // namespace act::fake
