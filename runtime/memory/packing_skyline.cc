// Fills the arena from the bottom, along the skyline of what is placed.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {
namespace {

// A piece of the skyline: during [lower, upper) the arena below `top` is used or given up.
struct Segment {
  int32_t lower, upper;
  int64_t top;
};

// The segments, one after the other over all times. Neighbours have different heights.
class Skyline {
 public:
  explicit Skyline(int32_t time_count)
      : time_count_(time_count),
        begin_(static_cast<size_t>(time_count) + 1),
        end_(static_cast<size_t>(time_count) + 1),
        top_(static_cast<size_t>(time_count) + 1) {
    Insert({0, time_count, 0});
  }

  int64_t size() const { return size_; }

  // The first of the lowest.
  Segment Lowest() {
    for (;;) {
      const auto [top, lower] = by_top_.top();
      if (end_[lower] != 0 && top_[lower] == top) return At(lower);
      by_top_.pop();  // no longer there
    }
  }

  // The height of the lower neighbour; INT64_MAX if there is none.
  int64_t TopBeside(const Segment& segment) const {
    const int64_t before = segment.lower > 0 ? top_[begin_[segment.lower]] : INT64_MAX;
    return std::min(before, segment.upper < time_count_ ? top_[segment.upper] : INT64_MAX);
  }

  // Gives the part [lower, upper) of a segment the height `top`.
  void Raise(const Segment& segment, int32_t lower, int32_t upper, int64_t top) {
    Erase(segment);
    if (segment.lower < lower) Insert({segment.lower, lower, segment.top});
    if (upper < segment.upper) Insert({upper, segment.upper, segment.top});
    Segment raised{lower, upper, top};
    if (lower > 0)
      if (const Segment before = At(begin_[lower]); before.top == top) {
        Erase(before);
        raised.lower = before.lower;
      }
    if (upper < time_count_)
      if (const Segment after = At(upper); after.top == top) {
        Erase(after);
        raised.upper = after.upper;
      }
    Insert(raised);
  }

 private:
  Segment At(int32_t lower) const { return {lower, end_[lower], top_[lower]}; }
  void Insert(const Segment& segment) {
    begin_[segment.upper] = segment.lower;
    end_[segment.lower] = segment.upper;
    top_[segment.lower] = segment.top;
    by_top_.emplace(segment.top, segment.lower);
    ++size_;
  }
  void Erase(const Segment& segment) {
    end_[segment.lower] = 0;
    --size_;
  }

  int32_t time_count_;
  int64_t size_ = 0;
  std::vector<int32_t> begin_;  // of the segment that ends at this time
  std::vector<int32_t> end_;    // of the segment that begins at this time; 0: none does
  std::vector<int64_t> top_;    // of the same
  // Heights and begins, the least first. Those of segments that are no longer there remain for a while.
  using Key = std::pair<int64_t, int32_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> by_top_;
};

// The items not yet placed, by start, in a binary tree. Each tree node knows the least rank and the
// least end of the items below it, so that a query skips most of what does not fit.
class WaitingItems {
 public:
  WaitingItems(const Instance& instance, const std::vector<int32_t>& rank)
      : instance_(instance), leaves_(std::bit_ceil(rank.size())), nodes_(2 * leaves_) {
    for (size_t i = 0; i < rank.size(); ++i) {
      const int32_t index = instance.by_lower[i];
      nodes_[leaves_ + i] = {rank[index], instance.items[index].upper};
    }
    for (size_t node = leaves_; --node > 0;) Update(node);
  }

  // Removes and returns the item of the least rank that lives within [lower, upper); -1 if there is
  // none.
  int32_t TakeFirstIn(int32_t lower, int32_t upper, int64_t& steps) {
    best_ = 0;
    size_t begin = leaves_ + static_cast<size_t>(instance_.first_at[lower]);
    size_t end = leaves_ + static_cast<size_t>(instance_.first_at[upper]);
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) Search(begin++, upper, steps);
      if (end % 2 == 1) Search(--end, upper, steps);
    }
    if (best_ == 0) return -1;
    const int32_t index = instance_.by_lower[best_ - leaves_];
    nodes_[best_] = {};
    for (size_t node = best_ / 2; node > 0; node /= 2) Update(node);
    return index;
  }

 private:
  struct Node {
    int32_t rank = INT32_MAX, upper = INT32_MAX;
  };

  void Update(size_t node) {
    const Node &a = nodes_[2 * node], &b = nodes_[2 * node + 1];
    nodes_[node] = {std::min(a.rank, b.rank), std::min(a.upper, b.upper)};
  }

  void Search(size_t node, int32_t upper, int64_t& steps) {
    ++steps;
    const int32_t limit = best_ == 0 ? INT32_MAX : nodes_[best_].rank;
    if (nodes_[node].upper > upper || nodes_[node].rank >= limit) return;
    if (node >= leaves_) {
      best_ = node;
      return;
    }
    const size_t first = nodes_[2 * node].rank < nodes_[2 * node + 1].rank ? 2 * node : 2 * node + 1;
    Search(first, upper, steps);
    Search(first ^ 1, upper, steps);
  }

  const Instance& instance_;
  size_t leaves_;
  std::vector<Node> nodes_;  // the root is 1, the children of i are 2 i and 2 i + 1
  size_t best_ = 0;          // the leaf that the query in progress has found, or 0
};

}  // namespace

void PlaceOnSkyline(const Instance& instance, const Order& order, Placement& placement, int64_t& steps) {
  const size_t count = instance.items.size();
  std::vector<int32_t> rank(count);
  for (size_t i = 0; i < count; ++i) rank[order[i]] = static_cast<int32_t>(i);
  placement.offsets.assign(count, 0);
  placement.height = 0;

  WaitingItems waiting(instance, rank);
  Skyline skyline(instance.time_count);
  for (size_t left = count; left > 0;) {
    const Segment space = skyline.Lowest();
    const int32_t chosen = waiting.TakeFirstIn(space.lower, space.upper, steps);
    steps += skyline.size();

    if (chosen < 0) {
      // Nothing fits, so the space is given up. This ends: one segment over all times
      // fits everything.
      skyline.Raise(space, space.lower, space.upper, skyline.TopBeside(space));
    } else {
      const Item& item = instance.items[chosen];
      const int64_t offset = AlignUp(space.top, item.alignment);
      const int64_t end = SaturatingAdd(offset, item.size);
      placement.offsets[chosen] = offset;
      placement.height = std::max(placement.height, end);
      --left;
      skyline.Raise(space, item.lower, item.upper, end);
    }
  }
}

}  // namespace act::packing_internal
