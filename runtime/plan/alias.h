// Which values share memory.
#pragma once

#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// For each value, the value whose memory it uses. A reshape's result is its operand in another
// shape, so whoever writes a parameter in place must wait for the readers of all its reshapes.
std::vector<ValueId> AliasRoots(const Graph& graph);

}  // namespace act
