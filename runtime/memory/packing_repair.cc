#include "runtime/memory/packing_repair.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <vector>

namespace act::packing_internal {
namespace {

constexpr int64_t kUnplaced = -1;
// Items of at least 1 / kSizeClasses[i] of the lower bound are placed before smaller ones start.
constexpr int64_t kSizeClasses[] = {50, 100, 200, 500, INT64_MAX};
// A target is given up when it has taken 1 / kTargets of the steps.
constexpr int64_t kTargets = 4;

class Repair {
 public:
  Repair(const Instance& instance, const Order& by_size, int64_t height, uint32_t seed)
      : items_(instance.items),
        by_size_(by_size),
        height_(height),
        random_(seed),
        offsets_(items_.size(), kUnplaced),
        failures_(items_.size(), 1) {}

  // Whether all items of at least `size` bytes found a place within the steps.
  bool PlaceDownTo(int64_t size, int64_t max_steps, int64_t& steps) {
    for (; next_ < by_size_.size() && items_[by_size_[next_]].size >= size; ++next_) {
      if (steps >= max_steps) return false;
      if (!Insert(by_size_[next_], false, steps)) waiting_.push_back(by_size_[next_]);
    }
    while (!waiting_.empty() && steps < max_steps) {
      // The largest first, the one that has waited longest among equals.
      const auto largest = std::max_element(waiting_.begin(), waiting_.end(), [&](int32_t a, int32_t b) {
        return items_[a].size < items_[b].size;
      });
      const int32_t index = *largest;
      waiting_.erase(largest);
      steps += static_cast<int64_t>(waiting_.size());
      Insert(index, true, steps);
    }
    return waiting_.empty();
  }

  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  struct Obstacle {
    int64_t offset, end;
    int64_t cost;
    int32_t index;
  };

  // Finds the offset in [0, height - size] where the items in the way cost least; among equals, mostly where the
  // fewest bytes are free around the item. Only offsets at either end of a range of equal cost count.
  bool Insert(int32_t index, bool eject, int64_t& steps) {
    const Item& item = items_[index];
    const int64_t last = (height_ - item.size) / item.alignment * item.alignment;
    if (item.size > height_) return false;
    obstacles_.clear();
    ends_.clear();
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& other = items_[i];
      if (offsets_[i] == kUnplaced || other.lower >= item.upper || item.lower >= other.upper) continue;
      const int64_t end = AlignUp(offsets_[i] + other.size, item.alignment);
      obstacles_.push_back({offsets_[i], end, failures_[i], static_cast<int32_t>(i)});
      ends_.emplace_back(end, failures_[i]);
    }
    std::sort(obstacles_.begin(), obstacles_.end(), [](const Obstacle& a, const Obstacle& b) {
      return std::pair(a.offset, a.index) < std::pair(b.offset, b.index);
    });
    std::sort(ends_.begin(), ends_.end());
    const auto count = static_cast<int64_t>(obstacles_.size());
    steps += static_cast<int64_t>(items_.size()) + 2 * count * std::bit_width(static_cast<uint64_t>(count));

    int64_t cost = 0, least = INT64_MAX, least_slack = 0, place = kUnplaced, begin = 0;
    const auto offer = [&](int64_t to) {
      to = std::min(to, last) / item.alignment * item.alignment;
      if (begin > to) return;
      const int64_t slack = to - begin;
      bool take = cost < least;
      if (cost == least && eject) {
        take = slack < least_slack || (slack == least_slack && random_() % 2 == 0);
        if (random_() % 16 == 0) take = !take;
      }
      if (!take) return;
      least = cost;
      least_slack = slack;
      place = eject && random_() % 2 == 0 ? to : begin;
    };
    // From below: an obstacle is in the way of offsets in (its offset - size, its end).
    size_t starting = 0, ending = 0;
    for (; starting < obstacles_.size() && obstacles_[starting].offset < item.size; ++starting)
      cost += obstacles_[starting].cost;
    for (bool falling = true;;) {
      const int64_t start =
          starting < obstacles_.size() ? obstacles_[starting].offset - item.size : INT64_MAX;
      const int64_t end = ending < ends_.size() ? ends_[ending].first : INT64_MAX;
      if (std::min(start, end) > last) {
        if (falling) offer(last);
        break;
      }
      if (end <= start) {
        for (; ending < ends_.size() && ends_[ending].first == end; ++ending) cost -= ends_[ending].second;
        begin = end;
        falling = true;
      } else {
        if (falling) offer(start);
        falling = false;
        for (; starting < obstacles_.size() && obstacles_[starting].offset - item.size == start; ++starting)
          cost += obstacles_[starting].cost;
      }
    }
    if (place == kUnplaced || (!eject && least > 0)) return false;
    for (const Obstacle& o : obstacles_) {
      if (o.offset >= place + item.size || place >= offsets_[o.index] + items_[o.index].size) continue;
      offsets_[o.index] = kUnplaced;
      waiting_.push_back(o.index);
    }
    if (least > 0) ++failures_[index];
    offsets_[index] = place;
    return true;
  }

  const std::vector<Item>& items_;
  const Order& by_size_;
  const int64_t height_;
  std::mt19937 random_;
  size_t next_ = 0;  // in by_size_
  std::vector<int64_t> offsets_, failures_;
  std::vector<int32_t> waiting_;
  std::vector<Obstacle> obstacles_;
  std::vector<std::pair<int64_t, int64_t>> ends_;  // end and cost of each obstacle
};

// Places what has no place yet into the lowest gaps.
Placement Completed(const Instance& instance, const Order& by_size, std::vector<int64_t> offsets,
                    int64_t& steps) {
  Placement placement{std::move(offsets), 0};
  Gaps gaps(instance.time_count);
  for (size_t i = 0; i < placement.offsets.size(); ++i)
    if (placement.offsets[i] != kUnplaced)
      placement.height = std::max(placement.height, gaps.Add(instance.items[i], placement.offsets[i]));
  for (const int32_t index : by_size) {
    if (placement.offsets[index] != kUnplaced) continue;
    const Item& item = instance.items[index];
    placement.offsets[index] = gaps.Find(item, Fit::kLowest, steps);
    placement.height = std::max(placement.height, gaps.Add(item, placement.offsets[index]));
  }
  return placement;
}

}  // namespace

void RepairSearch(const Instance& instance, int64_t max_steps, Placement& best) {
  // Sums of offsets must not overflow.
  if (best.height > INT64_MAX / 4) return;
  Order by_size(instance.items.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](int32_t a, int32_t b) {
    const Item &x = instance.items[a], &y = instance.items[b];
    return std::pair(x.size, x.length) > std::pair(y.size, y.length);
  });
  const int64_t bound = instance.lower_bound;
  int64_t failed = bound - 1;  // the highest target that was not reached
  int64_t steps = 0;
  for (uint32_t seed = 1; steps < max_steps && best.height > bound; ++seed) {
    const int64_t target = failed + 1 + (best.height - failed - 1) / 4;
    if (target >= best.height) break;
    const int64_t until = std::min(max_steps, steps + max_steps / kTargets);
    Repair repair(instance, by_size, target, seed);
    bool reached = true;
    for (const int64_t share : kSizeClasses)
      reached = reached && repair.PlaceDownTo(bound / share, until, steps);
    Placement found = Completed(instance, by_size, repair.offsets(), steps);
    if (!reached) failed = target;
    if (found.height < best.height) best = std::move(found);
    if (failed >= best.height) failed = bound - 1;
  }
}

}  // namespace act::packing_internal
