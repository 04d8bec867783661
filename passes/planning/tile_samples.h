// Runs parts of a step for a tile of samples at a time, where that lowers its peak.
#pragma once

#include "runtime/plan/plan.h"

namespace act {

// Loops over samples (runtime/plan/sample_loops.h) around nodes at the peak: from the maker of a large tensor
// to its last reader. Of the tensors that live at the peak the largest is tried first; a loop stays if the
// most bytes that live at its nodes get fewer. Ends where none does. Nodes in between that cannot run in
// tiles (updates) move in front of the loop or behind it. Gives the storages anew.
void TileSamples(StepGraph& step);

}  // namespace act
