// Removes what the outputs do not need.
#pragma once

#include <vector>

#include "runtime/plan/graph.h"

namespace act::onnx_import {

// Drops nodes that no output needs, and values that nothing reads or makes; inputs stay. Returns
// the new id of each old value, kNoValue for dropped ones.
std::vector<ValueId> Prune(Graph& graph);

}  // namespace act::onnx_import
