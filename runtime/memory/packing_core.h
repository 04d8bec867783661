// Internal to the packing solver: a search over the few items that decide the height.
#pragma once

#include <cstdint>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Replaces `best` by a lower packing if it finds one within about `max_steps` steps. Returns the
// steps taken. Searches packings of the core alone: the items live near the peak, and the largest
// ones. Such a packing costs a fraction of a packing of all items, so that more of them are tried.
// The lowest is completed with the other items, largest first, each in the tightest gap. Does
// nothing if most items are in the core. Deterministic. More steps usually give a better result,
// but not always: a lower core may leave worse gaps.
int64_t CoreSearch(const Instance& instance, int64_t max_steps, Placement& best);

}  // namespace act::packing_internal
