// Moves short runs of nodes to where fewer bytes wait.
#pragma once

#include "passes/planning/schedule.h"

namespace act {

// Starts from a legal order. Runs of a few nodes that stand together, blocks, move past other nodes if fewer bytes
// wait at these then, and the most that live at one of the nodes in between does not rise. So a branch whose result is
// larger than what it reads (the gradient of a strided convolution) runs late, and one whose result is smaller runs
// early. It is deterministic. The peak is never higher than that of the given order, but for tensors that are too small
// to count.
Schedule MoveBlocks(const ScheduleProblem& problem, Schedule schedule);

}  // namespace act
