#include "runtime/memory/packing.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/memory/packing_core.h"
#include "runtime/memory/packing_ejection.h"
#include "runtime/memory/packing_placement.h"
#include "runtime/memory/packing_search.h"

namespace act {
namespace {

using packing_internal::Fit;
using packing_internal::Instance;
using packing_internal::Item;
using packing_internal::Order;
using packing_internal::Placement;
using packing_internal::PlaceOnSkyline;

using Key = std::pair<double, double>;  // greatest first

Key ByPressure(const Item& i) { return {double(i.pressure), double(i.length)}; }
Key ByPressureAndSize(const Item& i) { return {double(i.pressure), double(i.size)}; }
Key ByLength(const Item& i) { return {double(i.length), double(i.size)}; }
Key ByArea(const Item& i) { return {double(i.size) * double(i.length), double(i.size)}; }
Key BySize(const Item& i) { return {double(i.size), double(i.length)}; }
Key ByStart(const Item& i) { return {-double(i.lower), double(i.length)}; }

using Place = void (*)(const Instance&, const Order&, Placement&, int64_t& steps);

void IntoLowestGap(const Instance& instance, const Order& order, Placement& placement, int64_t& steps) {
  PlaceInGaps(instance, order, Fit::kLowest, placement, steps);
}

void IntoTightestGap(const Instance& instance, const Order& order, Placement& placement, int64_t& steps) {
  PlaceInGaps(instance, order, Fit::kTightest, placement, steps);
}

struct Greedy {
  PackingHeuristic id;
  std::string_view name;
  Key (*key)(const Item&);
  Place place;
};

// In the order of PackingHeuristic: first the one that is best most often.
constexpr Greedy kGreedy[] = {
    {PackingHeuristic::kSkylineByPressure, "skyline-by-pressure", ByPressure, PlaceOnSkyline},
    {PackingHeuristic::kSkylineByPressureAndSize, "skyline-by-pressure-and-size", ByPressureAndSize,
     PlaceOnSkyline},
    {PackingHeuristic::kSkylineByLength, "skyline-by-length", ByLength, PlaceOnSkyline},
    {PackingHeuristic::kByLength, "by-length", ByLength, IntoLowestGap},
    {PackingHeuristic::kByArea, "by-area", ByArea, IntoLowestGap},
    {PackingHeuristic::kBySize, "by-size", BySize, IntoLowestGap},
    {PackingHeuristic::kByStart, "by-start", ByStart, IntoTightestGap},
};
static_assert(std::size(kGreedy) + 3 == kPackingHeuristicCount, "all but the searches");

bool Allows(const PackingOptions& options, PackingHeuristic heuristic) {
  return (options.heuristics >> static_cast<uint32_t>(heuristic) & 1u) != 0;
}

Order OrderBy(const Instance& instance, Key (*key)(const Item&)) {
  std::vector<Key> keys(instance.items.size());
  std::transform(instance.items.begin(), instance.items.end(), keys.begin(), key);
  Order order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  return order;
}

// Whether tries of the ejection search that begin with its packing often succeed.
bool IsGoodStart(PackingHeuristic greedy) {
  return greedy == PackingHeuristic::kSkylineByPressure || greedy == PackingHeuristic::kSkylineByLength;
}

Placement Solve(const Instance& instance, const PackingOptions& options) {
  std::optional<Placement> best;
  std::vector<Placement> starts;  // of the ejection search
  int64_t steps = 0;
  const int64_t enough = std::max(instance.lower_bound, options.enough);
  const auto finished = [&] { return best && (best->height <= enough || steps >= options.max_steps); };

  for (const Greedy& greedy : kGreedy) {
    if (finished()) break;
    if (!Allows(options, greedy.id)) continue;
    Placement placement;
    greedy.place(instance, OrderBy(instance, greedy.key), placement, steps);
    if (!best || placement.height < best->height) best = placement;
    if (IsGoodStart(greedy.id)) starts.push_back(std::move(placement));
  }
  if (!best) {
    best.emplace();
    IntoTightestGap(instance, OrderBy(instance, ByStart), *best, steps);
  }
  if (!finished() && Allows(options, PackingHeuristic::kCoreSearch)) {
    const int64_t half = (options.max_steps - steps) / 2;
    // Counts as at most half, even if its last step was a long one.
    steps += std::min(packing_internal::CoreSearch(instance, half, *best), half);
  }
  if (!finished() && Allows(options, PackingHeuristic::kSwapSearch)) {
    const auto keep_lowest = [&](const Placement& found) {
      if (found.height < best->height) best = found;
      return best->height > enough;
    };
    packing_internal::SwapSearch(instance, OrderBy(instance, ByPressure), options.max_steps - steps,
                                 keep_lowest);
  }
  if (Allows(options, PackingHeuristic::kEjectionSearch)) {
    const int64_t rounds = std::max<int64_t>(1, options.ejection_rounds);
    packing_internal::EjectionSearch(instance, std::move(starts),
                                     std::min(options.max_steps, INT64_MAX / rounds) * rounds, options.seed,
                                     enough, *best);
  }
  return *best;
}

}  // namespace

std::string_view PackingHeuristicName(PackingHeuristic heuristic) {
  for (const Greedy& greedy : kGreedy) {
    if (greedy.id == heuristic) return greedy.name;
  }
  if (heuristic == PackingHeuristic::kEjectionSearch) return "ejection-search";
  return heuristic == PackingHeuristic::kCoreSearch ? "core-search" : "swap-search";
}

int64_t PackingLowerBound(const PackingProblem& problem) { return Instance(problem).lower_bound; }

Packing SolvePacking(const PackingProblem& problem, const PackingOptions& options) {
  Packing packing;
  packing.offsets.assign(problem.buffers.size(), 0);
  const Instance instance(problem);
  if (instance.items.empty()) return packing;

  const Placement placement = Solve(instance, options);
  packing.height = placement.height;
  for (size_t i = 0; i < instance.items.size(); ++i) {
    packing.offsets[instance.buffer_of[i]] = placement.offsets[i];
  }
  return packing;
}

}  // namespace act
