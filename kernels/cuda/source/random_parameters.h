#pragma once

#include <cstdint>

#include "kernels/math/step_block.h"

namespace act::cuda {

// y[i] = offset + scale * the i-th number of a distribution.
struct RandomParameters {
  const StepBlock* step = nullptr;
  float* y = nullptr;
  double offset = 0, scale = 1;
  int64_t count = 0;
  uint32_t stream = 0;
  int32_t items = 0;  // threads with numbers to make
};

// Numbers that a thread makes: of one call of the generator if each takes one word of it, of two if it takes one word
// of each.
inline constexpr int kNumbersOfThread = 4;

}  // namespace act::cuda
