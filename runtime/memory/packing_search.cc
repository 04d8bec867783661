#include "runtime/memory/packing_search.h"

#include <algorithm>
#include <bit>
#include <numeric>
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

// The base-2 logarithm in units of 2^-16, linear between powers of two. It is computed in integers:
// the last bit of std::log differs between libraries, and an order must not. 0 below 1.
int64_t Log2(int64_t value) {
  if (value < 1) return 0;
  const int exponent = std::bit_width(static_cast<uint64_t>(value)) - 1;
  const auto rest = static_cast<uint64_t>(value) - (uint64_t{1} << exponent);
  const uint64_t fraction = exponent <= 16 ? rest << (16 - exponent) : rest >> (exponent - 16);
  return (int64_t{exponent} << 16) + static_cast<int64_t>(fraction);
}

// Orders the items by a random mix of pressure, length and size. Which mix is best differs from
// problem to problem.
class RandomOrders {
 public:
  explicit RandomOrders(const Instance& instance) {
    for (const Item& item : instance.items) {
      const double share = static_cast<double>(item.pressure) / static_cast<double>(instance.lower_bound);
      traits_.push_back({static_cast<int64_t>(share * 65536), Log2(item.length), Log2(item.size)});
    }
  }

  Order Next(std::mt19937& random) const {
    const auto mantissa = static_cast<int64_t>(16 + random() % 16);
    const int64_t pressure = mantissa << (1 + random() % 13);
    const auto length = static_cast<int64_t>(random() % 178);
    const int64_t size = static_cast<int64_t>(random() % 356) - 89;
    std::vector<int64_t> keys;
    for (const Traits& t : traits_) keys.push_back(pressure * t.pressure + length * t.length + size * t.size);
    Order order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
    return order;
  }

 private:
  struct Traits {
    int64_t pressure, length, size;
  };
  std::vector<Traits> traits_;
};

}  // namespace

int64_t SwapSearch(const Instance& instance, Order order, int64_t max_steps, const Visit& visit) {
  // Not std::uniform_int_distribution, whose results differ between standard libraries.
  std::mt19937 random(1);
  const auto pick = [&](const std::vector<int32_t>& from) { return from[random() % from.size()]; };
  const auto count = static_cast<int64_t>(order.size());
  const RandomOrders orders(instance);

  int64_t mixing = 0, climbing = 0;  // steps
  Placement placement;
  PlaceOnSkyline(instance, order, placement, climbing);
  int64_t height = placement.height;
  Excess excess = ExcessOf(instance, placement);
  bool goes_on = visit(placement);

  while (goes_on && mixing + climbing < max_steps && !excess.items.empty()) {
    // The start decides how far the climb gets, so half of the steps are spent on finding one. The
    // two alternate, so that a larger budget only continues what a smaller one has done.
    if (mixing <= climbing) {
      Order start = orders.Next(random);
      PlaceOnSkyline(instance, start, placement, mixing);
      mixing += 12 * count;  // the sort
      goes_on = visit(placement);
      if (placement.height >= height) continue;
      height = placement.height;
      excess = ExcessOf(instance, placement);
      order = std::move(start);
      continue;
    }
    const int32_t high = pick(excess.items);
    const std::vector<int32_t> conflicts = ConflictsOf(instance, high);
    const int32_t a = random() % 2 == 0 ? high : pick(conflicts);
    const int32_t b = pick(conflicts);
    const auto place_of_a = std::find(order.begin(), order.end(), a);
    const auto place_of_b = std::find(order.begin(), order.end(), b);
    std::iter_swap(place_of_a, place_of_b);

    PlaceOnSkyline(instance, order, placement, climbing);
    goes_on = visit(placement);
    Excess next = ExcessOf(instance, placement);
    if (next.bytes <= excess.bytes) {  // equal ones too: walking along plateaus finds the way down
      excess = std::move(next);
      height = placement.height;
    } else {
      std::iter_swap(place_of_a, place_of_b);
    }
    climbing += 3 * count;
  }
  return mixing + climbing;
}

}  // namespace act::packing_internal
