// Internal to the packing solver: a search over the few items that decide the height.
#pragma once

#include <cstdint>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Replaces `best` by a lower packing if it finds one within about `max_steps` steps; returns the steps taken.
// Searches packings of the core alone, the items live near the peak and the largest ones: each costs a
// fraction of a packing of all items, and so more are seen. The lowest it completes in the end with the
// other items, largest first into the tightest gap. Does nothing where the core is most of the items.
// Deterministic. More steps are better in general, but not always: a lower core may leave worse gaps.
int64_t CoreSearch(const Instance& instance, int64_t max_steps, Placement& best);

}  // namespace act::packing_internal
