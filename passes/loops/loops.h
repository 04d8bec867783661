// What can be part of a fused loop: elementwise operators, sums over leading axes, reductions of rows, encode
// and decode.
#pragma once

#include "runtime/plan/graph.h"

namespace act {

bool IsLoop(const Node& node, const Graph& graph);

// A sum over the first axes, which it drops: added up column by column, and complete behind the loop only.
bool IsLeadingSum(const Node& node, const Graph& graph);

// The last axes that a ReduceSum, ReduceMean or ReduceMax reduces to extent 1, where a tile holds rows of
// them; else 0.
int32_t RowAxesOf(const Node& node, const Graph& graph);

// The elements that a loop walks over.
const Dims& LoopSpace(const Node& node, const Graph& graph);

// A loop's result keeps its meaning inside the loop only if it is a number there too: casts to integers round
// when stored.
bool RoundsWhenStored(const Node& node, const Graph& graph);

// May nodes of these phases be one loop? The forward pass is complete before the backward pass begins, and
// not every pass over a micro-batch ends in an update.
bool InOnePass(Phase a, Phase b);

// Additions, multiplications, comparisons: repeating it costs next to nothing beside reading its operands.
bool IsCheapLoop(const Node& node);

}  // namespace act
