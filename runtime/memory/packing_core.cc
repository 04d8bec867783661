#include "runtime/memory/packing_core.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/memory/packing_search.h"

namespace act::packing_internal {
namespace {

// An item belongs to the core if it is live where at least this share of the lower bound is live,
constexpr double kCorePressure = 0.95;
// or if it takes at least this share of it: the gaps of a tight core rarely have room for such an
// item.
constexpr double kCoreSize = 0.025;
// How often to try to complete a packing of the core, each time with the other items in
// another order.
constexpr int kCompletions = 5;
// The packings of the core to complete: at most so many, the last that were found. Their heights
// exceed the lowest one's by at most 1 / kMargin of the lower bound.
constexpr size_t kCandidates = 256;
constexpr int64_t kMargin = 1500;

struct Core {
  explicit Core(const Instance& whole) {
    const auto bound = static_cast<double>(whole.lower_bound);
    for (size_t i = 0; i < whole.items.size(); ++i) {
      const Item& item = whole.items[i];
      const bool inside = static_cast<double>(item.pressure) >= kCorePressure * bound ||
                          static_cast<double>(item.size) >= kCoreSize * bound;
      (inside ? items : rest).push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(rest.begin(), rest.end(),
                     [&](int32_t a, int32_t b) { return whole.items[a].size > whole.items[b].size; });
  }

  std::vector<int32_t> items, rest;  // of the whole instance; the rest in the order of placement
};

// The items of the core alone. They keep the traits that they have among all items.
Instance InstanceOf(const Core& core, const Instance& whole) {
  PackingProblem problem;
  for (int32_t index : core.items) {
    const Item& item = whole.items[index];
    problem.buffers.push_back({item.lower, item.upper, item.size, item.alignment});
  }
  Instance instance(problem);
  for (size_t i = 0; i < core.items.size(); ++i) {
    instance.items[i].length = whole.items[core.items[i]].length;
    instance.items[i].pressure = whole.items[core.items[i]].pressure;
  }
  instance.lower_bound = whole.lower_bound;
  return instance;
}

// Keeps the core as it is and places the other items into gaps, none of them above the core. An
// item that finds no gap is placed earlier at the next attempt.
std::optional<Placement> Complete(const Instance& whole, Core& core, const Placement& found, int64_t& steps) {
  Gaps of_core(whole.time_count);
  Placement placement{std::vector<int64_t>(whole.items.size(), 0), found.height};
  // Upwards: it is fast to add an item above all that are there, and the core has many items.
  Order upwards(core.items.size());
  std::iota(upwards.begin(), upwards.end(), 0);
  std::stable_sort(upwards.begin(), upwards.end(),
                   [&](int32_t a, int32_t b) { return found.offsets[a] < found.offsets[b]; });
  for (int32_t i : upwards) {
    placement.offsets[core.items[i]] = found.offsets[i];
    of_core.Add(whole.items[core.items[i]], found.offsets[i]);
  }
  for (int attempt = 0; attempt < kCompletions; ++attempt) {
    Gaps gaps = of_core;
    const auto fits = [&](int32_t index) {
      const Item& item = whole.items[index];
      const int64_t offset = gaps.Find(item, Fit::kTightest, steps);
      placement.offsets[index] = offset;
      return gaps.Add(item, offset) <= found.height;
    };
    const auto failed = std::find_if_not(core.rest.begin(), core.rest.end(), fits);
    if (failed == core.rest.end()) return placement;
    std::rotate(core.rest.begin() + (failed - core.rest.begin()) / 2, failed, failed + 1);
  }
  return std::nullopt;
}

}  // namespace

int64_t CoreSearch(const Instance& instance, int64_t max_steps, Placement& best) {
  Core core(instance);
  if (core.items.empty() || 2 * core.items.size() > instance.items.size()) return 0;
  const Instance inner = InstanceOf(core, instance);
  Order order(core.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const Item &x = inner.items[a], &y = inner.items[b];
    return std::pair(x.pressure, x.length) > std::pair(y.pressure, y.length);
  });

  // A completion takes as long as many placements, so only the lowest of the last packings get one.
  std::vector<Placement> candidates;
  int64_t lowest = best.height - 1;
  const auto keep = [&](const Placement& found) {
    if (found.height > SaturatingAdd(lowest, instance.lower_bound / kMargin) || found.height >= best.height)
      return true;
    lowest = std::min(lowest, found.height);
    if (candidates.size() == kCandidates) candidates.erase(candidates.begin());
    candidates.push_back(found);
    return true;
  };
  int64_t steps = SwapSearch(inner, std::move(order), max_steps / 5 * 4, keep);
  std::reverse(candidates.begin(), candidates.end());
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Placement& a, const Placement& b) { return a.height < b.height; });
  for (const Placement& found : candidates) {
    if (found.height >= best.height || steps >= max_steps) break;
    if (auto placement = Complete(instance, core, found, steps)) best = *std::move(placement);
  }
  return steps;
}

}  // namespace act::packing_internal
