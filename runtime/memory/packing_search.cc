#include "runtime/memory/packing_search.h"

#include <algorithm>
#include <random>
#include <utility>

namespace act::packing_internal {
namespace {

struct Excess {
  int64_t bytes = 0;           // over all items: how far they end above the lower bound
  std::vector<int32_t> items;  // those that do
};

Excess ExcessOf(const Instance& instance, const Placement& placement) {
  Excess excess;
  for (size_t i = 0; i < instance.items.size(); ++i) {
    const int64_t end = SaturatingAdd(placement.offsets[i], instance.items[i].size);
    if (end <= instance.lower_bound) continue;
    excess.bytes = SaturatingAdd(excess.bytes, end - instance.lower_bound);
    excess.items.push_back(static_cast<int32_t>(i));
  }
  return excess;
}

std::vector<int32_t> ConflictsOf(const Instance& instance, int32_t index) {
  const Item& item = instance.items[index];
  std::vector<int32_t> conflicts;
  for (size_t i = 0; i < instance.items.size(); ++i) {
    const Item& other = instance.items[i];
    if (other.lower < item.upper && item.lower < other.upper) conflicts.push_back(static_cast<int32_t>(i));
  }
  return conflicts;  // with the item itself
}

}  // namespace

void SwapSearch(const Instance& instance, Order order, int64_t max_steps, Placement& best) {
  // Not std::uniform_int_distribution, whose results differ between standard libraries.
  std::mt19937 random(1);
  const auto pick = [&](const std::vector<int32_t>& from) { return from[random() % from.size()]; };

  int64_t steps = 0;
  Placement placement;
  PlaceOnSkyline(instance, order, placement, steps);
  Excess excess = ExcessOf(instance, placement);
  if (placement.height < best.height) best = placement;

  while (steps < max_steps && !excess.items.empty()) {
    const int32_t high = pick(excess.items);
    const std::vector<int32_t> conflicts = ConflictsOf(instance, high);
    const int32_t a = random() % 2 == 0 ? high : pick(conflicts);
    const int32_t b = pick(conflicts);
    const auto place_of_a = std::find(order.begin(), order.end(), a);
    const auto place_of_b = std::find(order.begin(), order.end(), b);
    std::iter_swap(place_of_a, place_of_b);

    PlaceOnSkyline(instance, order, placement, steps);
    if (placement.height < best.height) best = placement;
    Excess next = ExcessOf(instance, placement);
    if (next.bytes <= excess.bytes) {  // equals too: a walk along plateaus finds the way down
      excess = std::move(next);
    } else {
      std::iter_swap(place_of_a, place_of_b);
    }
    steps += 3 * static_cast<int64_t>(order.size());
  }
}

}  // namespace act::packing_internal
