#pragma once

#include "kernels/cuda/source/divisor.h"

namespace act::cuda {

// The largest elements of each row of x, or the smallest ones.
struct TopKParameters {
  const void* x = nullptr;
  int64_t* index = nullptr;
  int32_t rows = 0, extent = 0, k = 0;
  bool largest = true, last = false;
  // Where all rows are sorted: pairs of a word of an element's key, and the element.
  uint32_t *keys = nullptr, *values = nullptr;
  Divisor row;       // extent
  Divisor selected;  // k
  int32_t items = 0;
};

// What a sort's keys are: the lower or the upper 32 bits of the elements' own, or the number of a row.
enum class KeyWord { kLow, kHigh, kRow };

}  // namespace act::cuda
