#include "runtime/memory/packing_placement.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace act::packing_internal {
namespace {

// The sum of all sizes may pass 64 bits even where the live bytes do not.
__extension__ typedef __int128 WideBytes;

int64_t Saturate(WideBytes bytes) { return bytes > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bytes); }

int32_t RankOf(const std::vector<int64_t>& times, int64_t time) {
  return static_cast<int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
}

// Bytes live in each of the intervals between consecutive times.
std::vector<int64_t> LiveBytes(const std::vector<Item>& items, int32_t time_count) {
  std::vector<WideBytes> delta(static_cast<size_t>(time_count) + 1, 0);
  for (const Item& item : items) {
    delta[item.lower] += item.size;
    delta[item.upper] -= item.size;
  }
  std::vector<int64_t> live(time_count);
  WideBytes bytes = 0;
  for (int32_t t = 0; t < time_count; ++t) live[t] = Saturate(bytes += delta[t]);
  return live;
}

// The maximum over any non-empty range in constant time, from the maxima over all ranges of
// length 2^k.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<int64_t> values) : levels_{std::move(values)} {
    const size_t count = levels_[0].size();
    for (size_t half = 1; 2 * half <= count; half *= 2) {
      const std::vector<int64_t>& below = levels_.back();
      std::vector<int64_t> level(count - 2 * half + 1);
      for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + half]);
      levels_.push_back(std::move(level));
    }
  }

  int64_t Max(int32_t lower, int32_t upper) const {
    const auto k = static_cast<size_t>(std::bit_width(static_cast<uint32_t>(upper - lower) / 2));
    return std::max(levels_[k][lower], levels_[k][upper - (size_t{1} << k)]);
  }

 private:
  std::vector<std::vector<int64_t>> levels_;
};

// A piece of the skyline: during [lower, upper) the arena below `top` is used or given up.
struct Segment {
  int32_t lower, upper;
  int64_t top;
};

size_t LowestSegment(const std::vector<Segment>& skyline) {
  const auto lower = [](const Segment& a, const Segment& b) { return a.top < b.top; };
  return static_cast<size_t>(std::min_element(skyline.begin(), skyline.end(), lower) - skyline.begin());
}

// Merges neighbouring segments of equal height among [first, last).
void MergeLevelNeighbours(std::vector<Segment>& skyline, size_t first, size_t last) {
  const auto begin = skyline.begin() + static_cast<std::ptrdiff_t>(first),
             end = skyline.begin() + static_cast<std::ptrdiff_t>(std::min(last, skyline.size()));
  auto kept = begin;
  for (auto next = begin + 1; next < end; ++next) {
    if (kept->top == next->top) {
      kept->upper = next->upper;
    } else {
      *++kept = *next;
    }
  }
  skyline.erase(kept + 1, end);
}

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

Instance::Instance(const PackingProblem& problem) {
  std::vector<int64_t> times;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.size <= 0 || buffer.lower >= buffer.upper) continue;
    buffer_of.push_back(i);
    times.push_back(buffer.lower);
    times.push_back(buffer.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  time_count = static_cast<int32_t>(times.size());

  for (size_t i : buffer_of) {
    const Buffer& buffer = problem.buffers[i];
    const int64_t alignment = std::max<int64_t>(buffer.alignment, 1);
    int64_t length = 0;
    if (__builtin_sub_overflow(buffer.upper, buffer.lower, &length)) length = INT64_MAX;
    items.push_back({RankOf(times, buffer.lower), RankOf(times, buffer.upper),
                     AlignUp(buffer.size, alignment), alignment, length, 0});
  }

  const RangeMaximum live(LiveBytes(items, time_count));
  for (Item& item : items) {
    item.pressure = live.Max(item.lower, item.upper);
    lower_bound = std::max(lower_bound, item.pressure);
  }

  by_lower.resize(items.size());
  std::iota(by_lower.begin(), by_lower.end(), 0);
  std::stable_sort(by_lower.begin(), by_lower.end(),
                   [&](int32_t a, int32_t b) { return items[a].lower < items[b].lower; });
  first_at.assign(static_cast<size_t>(time_count) + 1, 0);
  for (const Item& item : items) ++first_at[item.lower + 1];
  std::partial_sum(first_at.begin(), first_at.end(), first_at.begin());
}

void Gaps::ByOffset::Add(const Placed& added) {
  constexpr size_t kMostInBlock = 256;
  const auto before = [](int64_t offset, const Placed& other) { return offset < other.offset; };
  // The last block that begins at or below it.
  auto block =
      std::upper_bound(blocks_.begin(), blocks_.end(), added.offset,
                       [&](int64_t o, const std::vector<Placed>& b) { return before(o, b.front()); });
  if (block != blocks_.begin()) --block;
  if (block == blocks_.end()) block = blocks_.emplace(block);
  block->insert(std::upper_bound(block->begin(), block->end(), added.offset, before), added);
  if (block->size() < kMostInBlock) return;
  const auto middle = block->begin() + kMostInBlock / 2;
  std::vector<Placed> upper(middle, block->end());
  block->erase(middle, block->end());
  blocks_.insert(block + 1, std::move(upper));
}

int64_t Gaps::Find(const Item& item, Fit fit, int64_t& steps) const {
  int64_t best_offset = 0;
  int64_t best_gap = INT64_MAX;
  int64_t top = 0;  // end of the conflicting items seen so far
  const size_t first = PeriodOf(item.lower), last = PeriodOf(item.upper - 1);
  ++steps;
  for (const std::vector<Placed>& block : placed_[first == last ? first : kPeriods].blocks()) {
    for (size_t i = 0; i < block.size(); ++i) {
      const Placed& other = block[i];
      if (other.upper <= item.lower || item.upper <= other.lower) continue;
      const int64_t gap = other.offset - top;
      if (gap >= item.size && gap < best_gap) {
        const int64_t offset = AlignUp(top, item.alignment);
        if (other.offset - offset >= item.size) {
          best_offset = offset;
          best_gap = gap;
          if (fit == Fit::kLowest) {
            steps += static_cast<int64_t>(i);
            return best_offset;
          }
        }
      }
      top = std::max(top, other.end);
    }
    steps += static_cast<int64_t>(block.size());
  }
  return best_gap == INT64_MAX ? AlignUp(top, item.alignment) : best_offset;
}

int64_t Gaps::Add(const Item& item, int64_t offset) {
  const int64_t end = SaturatingAdd(offset, item.size);
  const Placed placed{item.lower, item.upper, offset, end};
  for (size_t i = PeriodOf(item.lower); i <= PeriodOf(item.upper - 1); ++i) placed_[i].Add(placed);
  placed_[kPeriods].Add(placed);
  return end;
}

void PlaceInGaps(const Instance& instance, const Order& order, Fit fit, Placement& placement,
                 int64_t& steps) {
  Gaps gaps(instance.time_count);
  placement.offsets.assign(instance.items.size(), 0);
  placement.height = 0;
  for (int32_t index : order) {
    const Item& item = instance.items[index];
    const int64_t offset = gaps.Find(item, fit, steps);
    placement.offsets[index] = offset;
    placement.height = std::max(placement.height, gaps.Add(item, offset));
  }
}

void PlaceOnSkyline(const Instance& instance, const Order& order, Placement& placement, int64_t& steps) {
  const size_t count = instance.items.size();
  std::vector<int32_t> rank(count);
  for (size_t i = 0; i < count; ++i) rank[order[i]] = static_cast<int32_t>(i);
  placement.offsets.assign(count, 0);
  placement.height = 0;

  WaitingItems waiting(instance, rank);
  std::vector<Segment> skyline = {{0, instance.time_count, 0}};
  for (size_t left = count; left > 0;) {
    const size_t lowest = LowestSegment(skyline);
    const Segment space = skyline[lowest];
    const int32_t chosen = waiting.TakeFirstIn(space.lower, space.upper, steps);
    steps += static_cast<int64_t>(skyline.size());

    if (chosen < 0) {
      // Nothing fits, so the space is given up. This ends: one segment over all times
      // fits everything.
      const int64_t before = lowest > 0 ? skyline[lowest - 1].top : INT64_MAX;
      const int64_t after = lowest + 1 < skyline.size() ? skyline[lowest + 1].top : INT64_MAX;
      skyline[lowest].top = std::min(before, after);
    } else {
      const Item& item = instance.items[chosen];
      const int64_t offset = AlignUp(space.top, item.alignment);
      const int64_t end = SaturatingAdd(offset, item.size);
      placement.offsets[chosen] = offset;
      placement.height = std::max(placement.height, end);
      --left;

      skyline[lowest] = {item.lower, item.upper, end};
      const auto at = skyline.begin() + static_cast<std::ptrdiff_t>(lowest);
      if (space.lower < item.lower) {
        const auto middle = skyline.insert(at, {space.lower, item.lower, space.top}) + 1;
        if (item.upper < space.upper) skyline.insert(middle + 1, {item.upper, space.upper, space.top});
      } else if (item.upper < space.upper) {
        skyline.insert(at + 1, {item.upper, space.upper, space.top});
      }
    }
    // Only these segments can have changed: the one before, up to three in place of the lowest, and
    // the one after.
    MergeLevelNeighbours(skyline, lowest > 0 ? lowest - 1 : 0, lowest + 4);
  }
}

}  // namespace act::packing_internal
