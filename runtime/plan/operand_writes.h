// Which operands' memory a node writes: a part of CheckPlan (plan_check.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "runtime/plan/graph.h"

namespace act {

// Whether result `result` may lie in the storage of operand `operand`, which nothing reads after the node:
// the kernel reads each element of the operand before it writes that element of the result. Two kinds of
// nodes do: loops, where both are plain tensors of one type and of all of the loop's elements, and operators
// whose row says so (RuntimeOp::in_place). Kernels of others may read an operand again after they have written.
bool MayOverwrite(const Graph& graph, const Node& node, size_t result, size_t operand);

// What is wrong with Node::mutates: positions that the node does not have, values that are no parameter,
// buffer or optimizer state, or other operands than those into which the operator's kernels write. Nullopt if
// nothing is.
std::optional<std::string> WrongMutates(const Graph& graph, const Node& node);

}  // namespace act
