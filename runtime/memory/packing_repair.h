// Internal to the packing solver: a search that keeps below a height and throws out what is in the way.
#pragma once

#include <cstdint>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Replaces `best` by a lower packing if it finds one within about `max_steps` steps.
// Items are placed below a target height, large ones first. One that finds no gap goes where the items in its way
// were the easiest to place so far; these wait for another place (guided ejection search: Nagata and Braysy, "A
// powerful route minimization heuristic for the vehicle routing problem with time windows", 2009). A target that is
// reached is followed by a lower one. Small items start only when all larger ones have a place. Deterministic.
void RepairSearch(const Instance& instance, int64_t max_steps, Placement& best);

}  // namespace act::packing_internal
