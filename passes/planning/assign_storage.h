// From a graph of runnable operators to one that can be placed in memory.
#pragma once

#include "runtime/plan/plan.h"

namespace act {

// Drops unused values (renumbering the rest), gives each value its storage, and books workspaces of at most
// `workspace_limit` bytes a node (0: no limit).
//   Reshape shares its input's storage. A fused loop's result takes the storage of a same-size f32 operand
//   that nothing reads afterwards.
//   What a loop over samples alone knows shares with nothing outside of it.
StepGraph AssignStorage(Graph graph, int64_t workspace_limit);

// The storages anew, of a graph whose order or loops have changed since.
void AssignStorages(StepGraph& step);

}  // namespace act
