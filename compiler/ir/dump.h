// The textual form of a graph: what --print-after shows and golden tests compare.
#pragma once

#include <string>

#include "runtime/plan/graph.h"

namespace act {

// One line a node: "%7: f32[N,16,16,8] = Conv(%5, @c1.weight) {pads=[1,1,1,1]}". Parameters and
// buffers are written @name. Inputs and computed values are written %number, numbered in order of
// appearance. Scalar constants are written as their value.
std::string Dump(const Graph& graph);

}  // namespace act
