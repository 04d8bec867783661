#include "runtime/memory/packing_placement.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace act::packing_internal {
namespace {

// The sum of all sizes may pass 64 bits even where the live bytes do not.
__extension__ typedef __int128 WideBytes;

int64_t Saturate(WideBytes bytes) {
  return bytes > INT64_MAX ? INT64_MAX : static_cast<int64_t>(bytes);
}

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

// A piece of the skyline: below `top` the arena is used or given up during [lower, upper).
struct Segment {
  int32_t lower, upper;
  int64_t top;
};

size_t LowestSegment(const std::vector<Segment>& skyline) {
  const auto lower = [](const Segment& a, const Segment& b) { return a.top < b.top; };
  return static_cast<size_t>(std::min_element(skyline.begin(), skyline.end(), lower) - skyline.begin());
}

void MergeLevelNeighbours(std::vector<Segment>& skyline) {
  size_t kept = 0;
  for (size_t i = 1; i < skyline.size(); ++i) {
    if (skyline[kept].top == skyline[i].top) {
      skyline[kept].upper = skyline[i].upper;
    } else {
      skyline[++kept] = skyline[i];
    }
  }
  skyline.resize(kept + 1);
}

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
    items.push_back({RankOf(times, buffer.lower), RankOf(times, buffer.upper), AlignUp(buffer.size, alignment),
                     alignment, length, 0});
  }

  const std::vector<int64_t> live = LiveBytes(items, time_count);
  for (Item& item : items) {
    item.pressure = *std::max_element(live.begin() + item.lower, live.begin() + item.upper);
    lower_bound = std::max(lower_bound, item.pressure);
  }
}

void PlaceInOrder(const Instance& instance, const Order& order, Fit fit, Placement& placement, int64_t& steps) {
  struct Placed {
    int32_t lower, upper;
    int64_t offset, end;
  };
  std::vector<Placed> placed;  // by offset
  placed.reserve(order.size());
  placement.offsets.assign(instance.items.size(), 0);
  placement.height = 0;

  for (int32_t index : order) {
    const Item& item = instance.items[index];
    int64_t best_offset = 0;
    int64_t best_gap = INT64_MAX;
    int64_t top = 0;  // end of the conflicting buffers seen so far
    size_t visited = 0;
    for (; visited < placed.size(); ++visited) {
      const Placed& other = placed[visited];
      if (other.upper <= item.lower || item.upper <= other.lower) continue;
      const int64_t gap = other.offset - top;
      if (gap >= item.size && gap < best_gap) {
        const int64_t offset = AlignUp(top, item.alignment);
        if (other.offset - offset >= item.size) {
          best_offset = offset;
          best_gap = gap;
          if (fit == Fit::kFirst) break;
        }
      }
      top = std::max(top, other.end);
    }
    steps += static_cast<int64_t>(visited) + 1;
    if (best_gap == INT64_MAX) best_offset = AlignUp(top, item.alignment);

    const int64_t end = SaturatingAdd(best_offset, item.size);
    placement.offsets[index] = best_offset;
    placement.height = std::max(placement.height, end);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), best_offset,
        [](int64_t offset, const Placed& other) { return offset < other.offset; });
    placed.insert(position, {item.lower, item.upper, best_offset, end});
  }
}

void PlaceOnSkyline(const Instance& instance, const std::vector<double>& priority, Placement& placement,
                    int64_t& steps) {
  // Highest priority first, so that the first that fits is the choice.
  Order waiting(instance.items.size());
  std::iota(waiting.begin(), waiting.end(), 0);
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](int32_t a, int32_t b) { return priority[a] > priority[b]; });
  placement.offsets.assign(instance.items.size(), 0);
  placement.height = 0;

  std::vector<Segment> skyline = {{0, instance.time_count, 0}};
  while (!waiting.empty()) {
    const size_t lowest = LowestSegment(skyline);
    const Segment space = skyline[lowest];
    const auto chosen = std::find_if(waiting.begin(), waiting.end(), [&](int32_t index) {
      const Item& item = instance.items[index];
      return space.lower <= item.lower && item.upper <= space.upper;
    });
    steps += static_cast<int64_t>(skyline.size()) + (chosen - waiting.begin()) + 1;

    if (chosen == waiting.end()) {
      // Nothing fits: give the space up. This ends, as one segment over all times fits everything.
      const int64_t left = lowest > 0 ? skyline[lowest - 1].top : INT64_MAX;
      const int64_t right = lowest + 1 < skyline.size() ? skyline[lowest + 1].top : INT64_MAX;
      skyline[lowest].top = std::min(left, right);
    } else {
      const Item& item = instance.items[*chosen];
      const int64_t offset = AlignUp(space.top, item.alignment);
      const int64_t end = SaturatingAdd(offset, item.size);
      placement.offsets[*chosen] = offset;
      placement.height = std::max(placement.height, end);
      waiting.erase(chosen);

      skyline[lowest] = {item.lower, item.upper, end};
      const auto at = skyline.begin() + static_cast<std::ptrdiff_t>(lowest);
      if (item.upper < space.upper) skyline.insert(at + 1, {item.upper, space.upper, space.top});
      if (space.lower < item.lower) {
        skyline.insert(skyline.begin() + static_cast<std::ptrdiff_t>(lowest), {space.lower, item.lower, space.top});
      }
    }
    MergeLevelNeighbours(skyline);
  }
}

}  // namespace act::packing_internal
