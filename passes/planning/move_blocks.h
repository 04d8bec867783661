// Moves short runs of nodes to where fewer bytes are alive between nodes.
#pragma once

#include "passes/planning/schedule.h"

namespace act {

// Starts from a legal order. Blocks of a few adjacent nodes move past other nodes if fewer bytes are alive while these
// run, and the most that live at one of the nodes in between does not rise. So a branch whose result is larger than what
// it reads (the gradient of a strided convolution) runs late, and one whose result is smaller runs early. It is
// deterministic. The peak is never higher than that of the given order, but for tensors that are too small to count.
Schedule MoveBlocks(const ScheduleProblem& problem, Schedule schedule);

}  // namespace act
