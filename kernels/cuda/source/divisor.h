// Division by a number that is known before the launch. A card has no instruction for it; this takes three.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace act::cuda {

// Counts of work, and extents, that device code divides are below this, so that one and a tile's extent are
// below 2^31. Kernels refuse what is larger.
inline constexpr int64_t kMaxCount = (int64_t{1} << 31) - 4096;

// n / by = (high(n * multiplier) + n) >> shift for n < 2^31, where high() is the upper half of 64 bits.
// T. Granlund and P. Montgomery, Division by invariant integers using multiplication, 1994, figure 4.1.
struct Divisor {
  int32_t by = 1;
  uint32_t multiplier = 1, shift = 0;
};

// by < kMaxCount; an extent of 0, of a tensor that has no elements to count, is taken as 1.
ACT_HOST_DEVICE inline Divisor DivisorOf(int64_t by) {
  Divisor d;
  d.by = by > 0 ? static_cast<int32_t>(by) : 1;
  while ((int64_t{1} << d.shift) < d.by) ++d.shift;
  const int64_t rest = (int64_t{1} << d.shift) - d.by;
  d.multiplier = static_cast<uint32_t>((rest << 32) / d.by + 1);
  return d;
}

// n / by for n >= 0.
ACT_HOST_DEVICE inline int32_t Quotient(const Divisor& d, int32_t n) {
  const auto dividend = static_cast<uint32_t>(n);
  const auto high = static_cast<uint32_t>(uint64_t{dividend} * d.multiplier >> 32);
  return static_cast<int32_t>((high + dividend) >> d.shift);
}

// Divides n, and returns the remainder.
ACT_HOST_DEVICE inline int32_t Split(const Divisor& d, int32_t& n) {
  const int32_t quotient = Quotient(d, n), remainder = n - quotient * d.by;
  n = quotient;
  return remainder;
}

}  // namespace act::cuda
