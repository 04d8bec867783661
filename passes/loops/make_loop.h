// Makes the Fused node, with its program, of nodes that become one fused loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// Nodes that can be one loop (passes/loops/loops.h).
struct LoopNodes {
  // Positions in the graph, ascending, so that operands are made before they are read.
  std::vector<size_t> nodes;
  Dims space;            // the elements that the loop visits
  int32_t row_axes = 0;  // see Program
  Phase phase = Phase::kForward;
};

// Makes the node that does what `group` does. Its results are the group's values that are sums,
// codes or written in place, and those that other nodes read according to `read_outside`.
Node MakeLoop(const Graph& graph, const LoopNodes& group, const std::function<bool(ValueId)>& read_outside);

}  // namespace act
