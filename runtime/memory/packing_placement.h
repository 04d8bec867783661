// Internal to the packing solver: the problem in a form made for many placements, and the two ways to place.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/packing.h"

namespace act::packing_internal {

// A buffer that occupies bytes, with times replaced by their rank among all times that occur.
struct Item {
  int32_t lower, upper;
  int64_t size;       // bytes, rounded up to the alignment
  int64_t alignment;  // bytes
  int64_t length;     // ops, from the original times
  int64_t pressure;   // the most bytes live at any time in [lower, upper)
};

struct Instance {
  explicit Instance(const PackingProblem& problem);

  std::vector<Item> items;
  std::vector<size_t> buffer_of;  // the buffer of each item
  int32_t time_count = 0;         // ranks lie in [0, time_count]
  int64_t lower_bound = 0;        // bytes
};

using Order = std::vector<int32_t>;  // a permutation of the items

struct Placement {
  std::vector<int64_t> offsets;  // bytes, per item
  int64_t height = 0;            // bytes, saturated at INT64_MAX
};

enum class Fit {
  kFirst,  // the lowest gap
  kBest,   // the tightest gap
};

// Places the items one after the other into gaps left by those before. Adds the work done to `steps`.
void PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Placement& placement, int64_t& steps);

// Fills the arena from the bottom: at the lowest segment of the skyline places the item with the highest
// `priority` that fits into the segment's time span. Adds the work done to `steps`.
void PlaceOnSkyline(const Instance& instance, const std::vector<double>& priority, Placement& placement,
                    int64_t& steps);

// INT64_MAX where the sum does not fit. Both non-negative.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// The next multiple of `alignment`, or INT64_MAX where that does not fit.
inline int64_t AlignUp(int64_t bytes, int64_t alignment) {
  const int64_t excess = bytes % alignment;
  return excess == 0 ? bytes : SaturatingAdd(bytes, alignment - excess);
}

}  // namespace act::packing_internal
