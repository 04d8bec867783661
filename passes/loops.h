// What can be part of a fused loop: elementwise operators, sums over leading axes, encode and decode.
#pragma once

#include "runtime/plan/graph.h"

namespace act {

bool IsLoop(const Node& node, const Graph& graph);

// The elements that a loop walks over.
const Dims& LoopSpace(const Node& node, const Graph& graph);

// A loop's result keeps its meaning inside the loop only if it is a number there too: casts to integers round
// when stored.
bool RoundsWhenStored(const Node& node, const Graph& graph);

// Additions, multiplications, comparisons: repeating it costs next to nothing beside reading its operands.
bool IsCheapLoop(const Node& node);

}  // namespace act
