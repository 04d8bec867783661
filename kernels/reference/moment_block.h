// A block of an optimizer's state (a moment, a velocity) that lives in bfloat16 or in 8 bits and is computed in
// float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/math/convert.h"
#include "kernels/math/moment_update.h"
#include "runtime/codec/dynamic_map.h"

namespace act {

struct MomentBlock {
  const DynamicMap* map;
  int64_t count;      // elements, at most kMomentBlock
  BFloat16* numbers;  // null: 8 bits, in codes and their maximum
  uint8_t* codes;
  float* maximum;

  void Decode(float* x) const {
    for (int64_t i = 0; i < count; ++i) x[i] = numbers ? ToFloat(numbers[i]) : (*map)[codes[i]] * *maximum;
  }

  // bits >> shift: 16 uniform bits of each element.
  void Encode(const float* x, const uint32_t* bits, int shift) const {
    if (numbers) {
      for (int64_t i = 0; i < count; ++i) numbers[i] = Rounded(x[i], bits[i] >> shift & 0xFFFF);
      return;
    }
    // x / most lies in -1..1: the quotient of a smaller number by a larger one rounds to at most 1.
    const float most = Maximum(x);
    *maximum = most;
    for (int64_t i = 0; i < count; ++i)
      codes[i] = most > 0 ? map->Round(x[i] / most, bits[i] >> shift & 0xFFFF) : map->zero();
  }

  // For second moments, whose 0 would let the first one be divided by eps alone: a number above 0 that was
  // rounded to 0 becomes the map's least one. bfloat16 has float32's range and needs no such care.
  void RaiseZeros(const float* x) const {
    if (numbers || !(*maximum > 0)) return;
    for (int64_t i = 0; i < count; ++i)
      if (x[i] > 0 && codes[i] == map->zero()) ++codes[i];
  }

 private:
  static BFloat16 Rounded(float x, uint32_t bits) {
    return std::isfinite(x) ? BFloat16{MomentInBFloat16(x, bits)} : FromFloat<BFloat16>(x);
  }

  // The largest magnitude; NaN where a number is not finite, so that the whole block becomes NaN.
  float Maximum(const float* x) const {
    float most = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
      most = std::max(most, std::abs(x[i]));
    }
    return most;
  }
};

}  // namespace act
