// Rounded copies of what products multiply: the second half of narrow-values.
#pragma once

#include <vector>

#include "compiler/ir/marks.h"
#include "compiler/ir/value_map.h"
#include "runtime/plan/graph.h"
#include "runtime/plan/runtime_op.h"

namespace act {

// The letters of a node of a fused graph.
inline const BFloat16s& LettersOf(const Node& node) { return FindRuntimeOp(node.op)->bfloat16; }

// Gives the products of `narrowed` (by node) a bfloat16 copy of each factor that is float32. A factor
// of a matrix product that does not follow from the graph's inputs (`from_inputs`, by value) is left
// to the kernel. The forward and the backward pass share a copy only if it is stored instead of the
// value, whose edges it takes: else it would live from one to the other.
void RoundFactors(Graph& graph, Marks& marks, const std::vector<bool>& narrowed,
                  const ValueMap<bool>& from_inputs);

}  // namespace act
