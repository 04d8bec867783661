// Operands whose products and sums are exact in float32, in any order: so results of all kernels have the same
// bits, also where a result is rounded to bfloat16 once.
#pragma once

#include "kernels/math/convert.h"
#include "tests/unit/kernel_testing.h"

namespace act {

// -4 to 4 without 0. Sums of up to 2^19 products of them are exact in float32.
inline TestTensor Integers(std::vector<int64_t> dims, unsigned seed) {
  TestTensor t = Empty(std::move(dims));
  std::mt19937 engine(seed);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const int x = static_cast<int>(engine() % 8) - 4;
    t.as<float>()[i] = static_cast<float>(x < 0 ? x : x + 1);
  }
  return t;
}

// 1 to 2 with all bits of float32. Rounded to bfloat16, they are multiples of 2^-7, so that sums of up to 2^14
// products with integers to 4 are exact.
inline TestTensor Fractions(std::vector<int64_t> dims, unsigned seed) {
  TestTensor t = Empty(std::move(dims));
  std::mt19937 engine(seed);
  for (int64_t i = 0; i < t.elements(); ++i) t.as<uint32_t>()[i] = 0x3F800000u | (engine() & 0x7FFFFFu);
  // ties, to even below and above
  if (t.elements() > 1) t.as<uint32_t>()[0] = 0x3F808000u;
  if (t.elements() > 1) t.as<uint32_t>()[1] = 0x3F818000u;
  return t;
}

}  // namespace act
