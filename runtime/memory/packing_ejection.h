// Internal to the packing solver: a search that keeps below a height and takes out what is in the way.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/packing_placement.h"

namespace act::packing_internal {

// Lowers `best` until it is at most `enough`, or a 500th above the lower bound, or about `max_steps` steps are taken;
// a quarter of them where it is at most a 200th above or where they gained nothing. A try begins with the order of the
// items in `best`, and with a lower height: those that end above it wait. A waiting item goes where no others are in
// the way once these are pushed up and down as far as they can be, or else where those that still are were the easiest
// to place so far. These are taken out and wait (guided ejection search: Nagata and Braysy, "A powerful route
// minimization heuristic for the vehicle routing problem with time windows", 2009). A height that is reached is
// followed by a lower one. Some tries end soon and others never, so each takes few steps at first, and those after a
// failure begin with one of `starts` by turns, or with `best` if there are none. A start's height tells nothing: tries
// from skylines succeed much more often than those from lower packings by size.
//
// Few items take part at first: those that live near the peak, and the largest. Others go into the gaps when these have
// found their places; one that finds no gap takes part from then on.
//
// Deterministic. A larger `max_steps` only continues the same search.
void EjectionSearch(const Instance& instance, std::vector<Placement> starts, int64_t max_steps, uint32_t seed,
                    int64_t enough, Placement& best);

}  // namespace act::packing_internal
