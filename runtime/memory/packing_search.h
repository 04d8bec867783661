// Internal to the packing solver: the improvement of a packing.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Takes a packing that a search has found.
using Visit = std::function<void(const Placement& found)>;

// Visits many packings within about `max_steps` steps. Fills the skyline in random orders, and climbs from
// the best of them, `order` being the first: exchanges an item that ends above the lower bound, or one that
// it conflicts with, with another of its conflicts. The cost is not the height, which few exchanges change,
// but all the bytes by which items end above the lower bound. Deterministic; returns the steps taken, and
// with more of them only goes on.
int64_t SwapSearch(const Instance& instance, Order order, int64_t max_steps, const Visit& visit);

}  // namespace act::packing_internal
