// The dynamic map of 8-bit optimizer state (Dettmers et al., 8-bit Optimizers via Block-wise Quantization,
// 2022): numbers of -1..1 (signed) or 0..1 (unsigned). Each decade from 1e-7 to 1 has twice as many numbers,
// in equal steps, as the decade below it.
//
// Here 1 takes the place of the largest number of the last decade, and in the signed map -1 does so, too: the
// map then ends where a block's numbers end, and no rounding between neighbours is biased.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/math/moment_update.h"

namespace act {

class DynamicMap {
 public:
  explicit constexpr DynamicMap(bool is_signed) {
    constexpr int kDecades = 7;
    std::array<float, 256> positive = {};
    int count = 0;
    double decade = 1e-6;
    for (int i = 0; i < kDecades; ++i, decade *= 10) {
      const int steps = 1 << (is_signed ? i : i + 1);
      for (int k = 0; k < steps; ++k)
        positive[static_cast<size_t>(count++)] = static_cast<float>(decade * (.1 + .9 * (k + .5) / steps));
    }
    positive[static_cast<size_t>(count - 1)] = 1;
    if (is_signed)
      for (int i = count - 1; i >= 0; --i) values_[static_cast<size_t>(size_++)] = -positive[i];
    zero_ = size_;
    values_[static_cast<size_t>(size_++)] = 0;
    for (int i = 0; i < count; ++i) values_[static_cast<size_t>(size_++)] = positive[i];
  }

  constexpr int size() const { return size_; }
  constexpr uint8_t zero() const { return static_cast<uint8_t>(zero_); }
  constexpr float operator[](int code) const { return values_[static_cast<size_t>(code)]; }

  // The code below x or the one above, with probabilities that make the expectation x; bits: 16 uniform ones.
  // x lies between the map's ends.
  constexpr uint8_t Round(float x, uint32_t bits) const {
    return static_cast<uint8_t>(MomentCode(values_.data(), size_, x, bits));
  }
  // 256 numbers, of which `size` are the map's.
  const std::array<float, 256>& values() const { return values_; }

 private:
  std::array<float, 256> values_ = {};
  int size_ = 0, zero_ = 0;
};

inline constexpr DynamicMap kSignedMap{true};
inline constexpr DynamicMap kUnsignedMap{false};

}  // namespace act
