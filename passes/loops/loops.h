// Tells what can be part of a fused loop: elementwise operators, sums over leading axes, reductions
// of rows, encode and decode.
#pragma once

#include <cstddef>

#include "runtime/plan/graph.h"

namespace act {

// Larger loops are not made: the tiles of a program (4 KiB a register) must
// stay in the first-level cache.
inline constexpr size_t kMostNodesPerLoop = 24;

bool IsLoop(const Node& node, const Graph& graph);

// A sum over the first axes, which it drops. It is added up column by column, and is complete only
// after the loop.
bool IsLeadingSum(const Node& node, const Graph& graph);

// The number of last axes that a ReduceSum, ReduceMean or ReduceMax reduces to extent 1, if a tile
// holds rows of them. Else 0.
int32_t RowAxesOf(const Node& node, const Graph& graph);

// The elements that a loop visits.
const Dims& LoopSpace(const Node& node, const Graph& graph);

// A loop's result keeps its meaning inside the loop only if it is a number there too. A cast to
// integers rounds only when it is stored.
bool RoundsWhenStored(const Node& node, const Graph& graph);

// Whether nodes of these phases may be one loop. The forward pass is complete before the backward
// pass begins, and not every pass over a micro-batch ends in an update.
bool InOnePass(Phase a, Phase b);

// An addition, multiplication, comparison and the like. Repeating it costs next to nothing beside
// reading its operands.
bool IsCheapLoop(const Node& node);

}  // namespace act
