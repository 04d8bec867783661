// A fused loop's program against the operands of its node: a part of CheckPlan (plan_check.h).
#pragma once

#include <optional>
#include <string>

#include "runtime/plan/graph.h"

namespace act {

// Sizes must not shrink as N grows, since a smaller last batch runs in the layout of the full one.
bool IsPossible(const Dim& dim);

// What is wrong with the node's program, or does not fit between it and the node's operands, whose
// ids are in range. Nullopt if nothing is.
std::optional<std::string> WrongLoop(const Graph& graph, const Node& node);

}  // namespace act
