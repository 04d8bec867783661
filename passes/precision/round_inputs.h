// Rounded copies of the graph's inputs: the first part of narrow-values.
#pragma once

#include <vector>

#include "compiler/ir/marks.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/plan.h"

namespace act {

// Where only products read an input, or what moves of it, a loop copies it first and everything else
// reads the copy, which narrow-values makes bfloat16. If the backward pass reads it, the copy is a
// saved activation: half of the input, whose memory is then free.
void RoundInputs(Graph& graph, Marks& marks, std::vector<SavedEdge>& edges);

}  // namespace act
