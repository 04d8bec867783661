// Internal to the packing solver: the outline of what is placed so far, seen from above.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace act::packing_internal {

// A piece of the skyline: during [lower, upper) the arena below `top` is used or given up.
struct Segment {
  int32_t lower, upper;
  int64_t top;
};

// Segments that follow one another, no two neighbours of equal height, and the lowest of them, the first if there are
// several. Each is known by its start.
class Skyline {
 public:
  explicit Skyline(int32_t time_count) : at_(static_cast<size_t>(time_count)) {
    Insert({0, time_count, 0}, -1);
  }

  size_t size() const { return size_; }
  Segment Lowest() {
    while (At(lowest_.top().second).top != lowest_.top().first) lowest_.pop();  // it has risen since
    const int32_t lower = lowest_.top().second;
    return {lower, At(lower).upper, At(lower).top};
  }
  // Raises the segment at `lower` to the lower one of its neighbours.
  void GiveUp(int32_t lower) {
    const Entry& entry = At(lower);
    const int64_t before = entry.before >= 0 ? At(entry.before).top : INT64_MAX;
    const int64_t after = entry.upper < static_cast<int32_t>(at_.size()) ? At(entry.upper).top : INT64_MAX;
    Raise(lower, std::min(before, after));
  }
  // Raises [lower, upper), a part of the segment, to `top`.
  void Fill(const Segment& segment, int32_t lower, int32_t upper, int64_t top) {
    if (upper < segment.upper) Split(segment.lower, upper);
    if (segment.lower < lower) Split(segment.lower, lower);
    Raise(lower, top);
  }

 private:
  struct Entry {
    int32_t upper = 0, before = -1;  // `before`: the start of the segment before it; -1: there is none
    int64_t top = -1;                // -1: no segment starts here
  };

  Entry& At(int32_t lower) { return at_[static_cast<size_t>(lower)]; }
  void Insert(const Segment& segment, int32_t before) {
    At(segment.lower) = {segment.upper, before, segment.top};
    if (segment.upper < static_cast<int32_t>(at_.size())) At(segment.upper).before = segment.lower;
    lowest_.emplace(segment.top, segment.lower);
    ++size_;
  }
  void Split(int32_t lower, int32_t middle) {
    Entry& entry = At(lower);
    const int32_t upper = std::exchange(entry.upper, middle);
    Insert({middle, upper, entry.top}, lower);
  }
  void Raise(int32_t lower, int64_t top) {
    At(lower).top = top;
    if (const int32_t after = At(lower).upper;
        after < static_cast<int32_t>(at_.size()) && At(after).top == top)
      Join(lower, after);
    if (const int32_t before = At(lower).before; before >= 0 && At(before).top == top)
      Join(before, lower);
    else
      lowest_.emplace(top, lower);
  }
  void Join(int32_t lower, int32_t next) {
    const int32_t upper = At(lower).upper = At(next).upper;
    if (upper < static_cast<int32_t>(at_.size())) At(upper).before = lower;
    At(next) = {};
    --size_;
  }

  std::vector<Entry> at_;  // by start
  size_t size_ = 0;
  using Height = std::pair<int64_t, int32_t>;                                // top, start
  std::priority_queue<Height, std::vector<Height>, std::greater<>> lowest_;  // and some that have risen
};

}  // namespace act::packing_internal
