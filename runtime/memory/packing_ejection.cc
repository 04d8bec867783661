#include "runtime/memory/packing_ejection.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "runtime/memory/packing_stack.h"

namespace act::packing_internal {
namespace {

// An item takes part from the start if it has at least 1 / kLargest of the lower bound,
constexpr int64_t kLargest = 5;
// or at least 1 / kSmallest of it and lives where at least 1 - 1 / kNearPeak of it are live.
constexpr int64_t kSmallest = 500;
constexpr int64_t kNearPeak = 20;
// A target lies 1 / kPart of the way from the highest that is given up to the best packing. It is given up after
// kTries more tries that failed.
constexpr int64_t kPart = 4, kTries = 2;
// What a try may take at first; twice as much after as many failures as there are starts.
constexpr int64_t kTrySteps = 6'000'000;
// A packing at most a 200th above the lower bound is worth no more than this part of the steps.
constexpr int64_t kPartIfClose = 4;
// A search that gains nothing ends after this part of the steps, or after kLeastSteps if that is more.
constexpr int64_t kPartWithoutGain = 4, kLeastSteps = 40'000'000;
// All tries together take at most so many steps times the square of the number of items: few items have few packings.
constexpr int64_t kStepsOfPairs = 1000;
// Steps of 1 to 4 ns: what a member of the stack costs when another is placed, and what one in its way does.
constexpr int64_t kMemberSteps = 10, kObstacleSteps = 8;

// The least common multiple of all alignments, or 0 if it is too coarse to pack by.
int64_t UnitOf(const Instance& instance) {
  int64_t unit = 1;
  for (const Item& item : instance.items) {
    const int64_t factor = item.alignment / std::gcd(unit, item.alignment);
    if (factor > instance.lower_bound / unit) return 0;
    unit *= factor;
  }
  return unit;
}

// Whether the height exceeds the lower bound by more than 1 / `share` of it.
bool IsLoose(const Placement& placement, const Instance& instance, int64_t share) {
  return placement.height - instance.lower_bound > instance.lower_bound / share;
}

class Search {
 public:
  Search(const Instance& instance, int64_t unit, int64_t& steps)
      : instance_(instance), unit_(unit), stack_(instance, unit), steps_(steps) {
    by_size_.resize(instance.items.size());
    std::iota(by_size_.begin(), by_size_.end(), 0);
    std::stable_sort(by_size_.begin(), by_size_.end(), [&](int32_t a, int32_t b) {
      const Item &x = instance.items[a], &y = instance.items[b];
      return std::pair(x.size, x.length) > std::pair(y.size, y.length);
    });
    const int64_t bound = instance.lower_bound;
    for (const int32_t i : by_size_) {
      const Item& item = instance.items[i];
      const bool near_peak = item.pressure >= bound - bound / kNearPeak;
      if (item.size >= bound / kLargest || (near_peak && item.size >= bound / kSmallest)) stack_.Add(i);
    }
    stack_.FindColumns();
  }

  // Whether a packing of at most `height` was found within the steps, beginning with the order of `start`. Replaces
  // `best` by any that is lower.
  bool Reach(int64_t height, int64_t max_steps, uint32_t seed, const Placement& start, Placement& best) {
    random_.seed(seed);
    steps_ += static_cast<int64_t>(by_size_.size()) + kMemberSteps * stack_.member_count();
    waiting_ = stack_.Restack(start.offsets, height / unit_);
    while (PlaceAll(max_steps)) {
      Placement found = Completed();
      const bool done = !AddThoseAbove(height, found);
      if (found.height < best.height) best = std::move(found);
      if (done) return true;
    }
    return false;
  }

 private:
  struct Change {
    int64_t offset, cost;
  };

  // Whether all members found a place.
  bool PlaceAll(int64_t max_steps) {
    while (!waiting_.empty()) {
      if (steps_ >= max_steps) return false;
      // The largest first, and of these the longest; the one that has waited longest among equals. The square of size
      // times root of length, in doubles, which are the same everywhere.
      const auto rank = [&](int32_t i) {
        const Stack::Member& m = stack_.member(i);
        return static_cast<double>(m.size) * static_cast<double>(m.size) * (m.upper - m.lower);
      };
      const auto largest = std::max_element(waiting_.begin(), waiting_.end(),
                                            [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
      const int32_t index = *largest;
      if (stack_.member(index).size > stack_.height()) return false;
      waiting_.erase(largest);
      const size_t others = waiting_.size();
      stack_.Insert(index, CheapestOffset(index), waiting_);
      if (waiting_.size() > others) ++stack_.member(index).failures;
      steps_ += kMemberSteps * static_cast<int64_t>(stack_.order().size());
    }
    return true;
  }

  // Where the members that block it cost least. Among equals, mostly where it can lie in the widest range.
  int64_t CheapestOffset(int32_t index) {
    const Stack::Member& added = stack_.member(index);
    const int64_t last = stack_.height() - added.size;
    // A member blocks the offsets above the one in `begins_` and below the one in `ends_`.
    begins_.clear();
    ends_.clear();
    for (const int32_t i : stack_.order()) {
      const Stack::Member& m = stack_.member(i);
      const int64_t begin = m.highest_offset - added.size;
      if (!m.Meets(added) || begin >= m.lowest_end) continue;
      begins_.push_back({begin, m.failures});
      ends_.push_back({m.lowest_end, m.failures});
    }
    std::sort(begins_.begin(), begins_.end(),
              [](const Change& a, const Change& b) { return a.offset < b.offset; });
    steps_ += kObstacleSteps * static_cast<int64_t>(begins_.size());

    int64_t cost = 0, least = INT64_MAX, widest = 0, place = 0;
    const auto offer = [&](int64_t from, int64_t to) {
      const int64_t width = to - from;
      bool take = cost < least;
      if (cost == least) {
        take = width > widest;
        if (random_() % 8 == 0) take = !take;
      }
      if (!take) return;
      least = cost;
      widest = width;
      place = random_() % 2 == 0 ? to : from;
    };
    size_t begun = 0, ended = 0;
    int64_t from = 0;
    for (; begun < begins_.size() && begins_[begun].offset < 0; ++begun) cost += begins_[begun].cost;
    // The cost is least in ranges from an end to the next begin.
    for (bool falling = true;;) {
      const int64_t begin = begun < begins_.size() ? begins_[begun].offset : INT64_MAX;
      const int64_t end = ended < ends_.size() ? ends_[ended].offset : INT64_MAX;
      if (std::min(begin, end) > last) {
        if (falling) offer(from, last);
        return place;
      }
      if (end <= begin) {
        for (; ended < ends_.size() && ends_[ended].offset == end; ++ended) cost -= ends_[ended].cost;
        from = end;
        falling = true;
      } else {
        if (falling) offer(from, begin);
        falling = false;
        for (; begun < begins_.size() && begins_[begun].offset == begin; ++begun) cost += begins_[begun].cost;
      }
    }
  }

  // The members as low as they can lie, and all other items in the lowest gaps, large ones first.
  Placement Completed() {
    Placement placement{stack_.Offsets(), 0};
    Gaps gaps(instance_.time_count);
    const auto add = [&](int32_t i) {
      placement.height = std::max(placement.height, gaps.Add(instance_.items[i], placement.offsets[i]));
    };
    for (const int32_t index : stack_.order()) add(stack_.member(index).item);
    for (const int32_t i : by_size_) {
      if (stack_.IsMember(i)) continue;
      placement.offsets[i] = gaps.Find(instance_.items[i], Fit::kLowest, steps_);
      add(i);
    }
    return placement;
  }

  // Makes members of all other items that end above the height. Whether there are any.
  bool AddThoseAbove(int64_t height, const Placement& placement) {
    if (placement.height <= height) return false;
    for (const int32_t i : by_size_) {
      if (stack_.IsMember(i) || SaturatingAdd(placement.offsets[i], instance_.items[i].size) <= height)
        continue;
      waiting_.push_back(stack_.Add(i));
    }
    stack_.FindColumns();
    stack_.Update();
    return true;
  }

  const Instance& instance_;
  const int64_t unit_;
  Stack stack_;
  Order by_size_;  // all items, large ones first
  std::mt19937 random_;
  int64_t& steps_;
  std::vector<int32_t> waiting_;  // members without a place
  std::vector<Change> begins_, ends_;
};

}  // namespace

void EjectionSearch(const Instance& instance, std::vector<Placement> starts, int64_t max_steps, uint32_t seed,
                    int64_t enough, Placement& best) {
  const int64_t unit = UnitOf(instance);
  // Sums of offsets must not overflow.
  if (unit == 0 || best.height > INT64_MAX / 4) return;
  if (starts.empty()) starts.push_back(best);

  const int64_t bound = instance.lower_bound;
  const auto items = static_cast<int64_t>(instance.items.size());
  const int64_t limit = std::min(max_steps, kStepsOfPairs * items * items);
  const int64_t limit_without_gain = std::max(limit / kPartWithoutGain, kLeastSteps);
  const int64_t first_height = best.height;
  int64_t steps = 0, try_steps = kTrySteps;
  int64_t given_up = bound - 1;  // the highest target that is
  size_t failures = 0;
  bool reached = true;
  std::optional<Search> search;
  for (; best.height > enough && IsLoose(best, instance, 500); ++seed) {
    if (steps >= (IsLoose(best, instance, 200) ? limit : limit / kPartIfClose)) break;
    if (steps >= limit_without_gain && best.height == first_height) break;
    const int64_t target = given_up + 1 + (best.height - given_up - 1) / kPart;
    // Items that took part in a try that failed need not take part in one from another start.
    if (!reached || !search) search.emplace(instance, unit, steps);
    const Placement start = reached ? best : starts[(failures - 1) % starts.size()];
    reached = search->Reach(target, std::min(limit, steps + try_steps), seed, start, best);
    if (!reached) {
      ++failures;
      if (failures % kTries == 0) given_up = target - target % unit + unit - 1;
      if (failures % starts.size() == 0 && try_steps < max_steps) try_steps *= 2;
    }
    if (given_up >= best.height - 1) given_up = bound - 1;
  }
}

}  // namespace act::packing_internal
