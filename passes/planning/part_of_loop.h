// A fused loop taken apart by its results.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// The loop that makes those of `loop`'s results whose positions are given, and reads what these need alone. `loop`
// writes no operand in place.
Node PartOfLoop(const Node& loop, const std::vector<size_t>& results);

}  // namespace act
