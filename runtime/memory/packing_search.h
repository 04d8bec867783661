// Internal to the packing solver: the improvement of a packing.
#pragma once

#include <cstdint>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Replaces `best` by a lower packing if it finds one within about `max_steps` steps. Fills the skyline in
// random orders, and climbs from the best of them, `order` being the first: exchanges a buffer that ends
// above the lower bound, or one that it conflicts with, with another of its conflicts. The cost is not the
// height, which few exchanges change, but all the bytes by which buffers end above the lower bound.
// Deterministic, and never worse with more steps.
void SwapSearch(const Instance& instance, Order order, int64_t max_steps, Placement& best);

}  // namespace act::packing_internal
