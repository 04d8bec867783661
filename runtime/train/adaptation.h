// What actrun --adapt-every did between two steps.
#pragma once

#include <cstdint>

namespace act {

struct Adaptation {
  uint64_t step = 0;     // steps done before
  int64_t measured = 0;  // codes with levels
  int64_t moved = 0;     // how many of them got other levels; 0: all stayed as they are
  double variance_before = 0, variance_after = 0;  // sums over these codes: measured; predicted
  int64_t bytes = 0;                               // of these codes from now on
  int64_t peak_bytes = 0;                          // of the step from now on
  double seconds = 0;
};

}  // namespace act
