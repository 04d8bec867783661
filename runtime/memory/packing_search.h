// Internal to the packing solver: improves a packing by exchanges.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Receives a packing that a search has found. Returns whether the search goes on.
using Visit = std::function<bool(const Placement& found)>;

// Visits many packings within about `max_steps` steps. It fills the skyline in random orders, of
// which `order` is the first, and climbs from the best of them. A move exchanges an item that ends
// above the lower bound, or one that conflicts with it, with another of its conflicts. The cost is
// not the height, which few exchanges change, but the sum of the bytes by which items end above the
// lower bound. Deterministic. Returns the steps taken. A larger `max_steps` only continues the same
// search.
int64_t SwapSearch(const Instance& instance, Order order, int64_t max_steps, const Visit& visit);

}  // namespace act::packing_internal
