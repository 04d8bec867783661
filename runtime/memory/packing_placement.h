// Internal to the packing solver: a form of the problem that suits many placements, and the two
// ways to place.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/packing.h"

namespace act::packing_internal {

// A buffer that occupies bytes. Times are replaced by their rank among all times that occur.
struct Item {
  int32_t lower, upper;
  int64_t size;       // bytes, rounded up to the alignment
  int64_t alignment;  // bytes
  int64_t length;     // ops, from the original times
  int64_t pressure;   // the most bytes that live at any time in [lower, upper)
};

using Order = std::vector<int32_t>;  // a permutation of the items

struct Instance {
  explicit Instance(const PackingProblem& problem);

  std::vector<Item> items;
  std::vector<size_t> buffer_of;  // the buffer of each item
  Order by_lower;                 // the items by start
  // time -> position in by_lower of the first item that starts then or later
  std::vector<int32_t> first_at;
  int32_t time_count = 0;   // times lie in [0, time_count)
  int64_t lower_bound = 0;  // bytes
};

struct Placement {
  std::vector<int64_t> offsets;  // bytes, per item
  int64_t height = 0;            // bytes, saturated at INT64_MAX
};

enum class Fit {
  kLowest,    // the first gap from the bottom
  kTightest,  // the gap that leaves the fewest bytes
};

// Items that are placed, and the gaps between them.
class Gaps {
 public:
  explicit Gaps(int32_t time_count) : time_count_(time_count) {}

  // The offset of the gap for `item`. If none is large enough, the place above all items that
  // conflict with it. Adds the work done to `steps`.
  int64_t Find(const Item& item, Fit fit, int64_t& steps) const;

  // Returns the end of the item.
  int64_t Add(const Item& item, int64_t offset);

 private:
  struct Placed {
    int32_t lower, upper;
    int64_t offset, end;
  };
  // By offset, in blocks, so that few move where one is added.
  class ByOffset {
   public:
    void Add(const Placed& added);
    const std::vector<std::vector<Placed>>& blocks() const { return blocks_; }

   private:
    std::vector<std::vector<Placed>> blocks_;  // none is empty
  };
  static constexpr size_t kPeriods = 64;
  size_t PeriodOf(int32_t time) const { return static_cast<size_t>(int64_t{time} * kPeriods / time_count_); }

  int32_t time_count_;
  // The last list has all items. Each of the others has those that live in one period, for the many short items.
  ByOffset placed_[kPeriods + 1];
};

// Places the items one after the other into the gaps left by earlier ones. Adds the work done to
// `steps`.
void PlaceInGaps(const Instance& instance, const Order& order, Fit fit, Placement& placement, int64_t& steps);

// Fills the arena from the bottom. At the lowest segment of the skyline it places the first item in
// `order` whose live range fits into the segment's (Burke et al., "A new placement heuristic for
// the orthogonal stock-cutting problem", 2004). Adds the work done to `steps`.
void PlaceOnSkyline(const Instance& instance, const Order& order, Placement& placement, int64_t& steps);

// INT64_MAX if the sum does not fit. Both are non-negative.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// The next multiple of `alignment`, or INT64_MAX if that does not fit.
inline int64_t AlignUp(int64_t bytes, int64_t alignment) {
  const int64_t excess = bytes % alignment;
  return excess == 0 ? bytes : SaturatingAdd(bytes, alignment - excess);
}

}  // namespace act::packing_internal
