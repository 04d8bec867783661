// Nodes that become one fused loop, as the Fused node with its program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// Nodes that can be one loop (passes/loops/loops.h).
struct LoopNodes {
  std::vector<size_t> nodes;  // positions in the graph, ascending: operands are made before they are read
  Dims space;                 // the elements that the loop walks over
  int32_t row_axes = 0;       // see Program
  Phase phase = Phase::kForward;
};

// The node that does what `group` does. Of the values that its nodes make it has those as results that are
// sums, codes or written in place, and those that `read_outside` tells to be read by other nodes.
Node MakeLoop(const Graph& graph, const LoopNodes& group, const std::function<bool(ValueId)>& read_outside);

}  // namespace act
