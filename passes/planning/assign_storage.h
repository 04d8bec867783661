// Turns a graph of runnable operators into one that can be placed in memory.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

// Drops unused values (and renumbers the rest), gives each value its storage, and books workspaces
// of at most `workspace_limit` bytes a node (0: no limit).
// * A Reshape shares its input's storage.
// * A fused loop's result takes the storage of an f32 operand of the same size
//   that nothing reads afterwards.
// * A value that lives only inside a loop over samples shares no storage with values outside of it.
StepGraph AssignStorage(Graph graph, int64_t workspace_limit);

// A result of a node that may take the storage of an operand, if nothing else reads that then or later.
struct Overwrite {
  size_t result = 0, operand = 0;  // positions in the node's
};

// Those of a node that are of the same size and that its kernels allow: by result, then in the order to try them. Other
// operands may lie in the same memory, so ask MayOverwriteAll.
std::vector<Overwrite> OverwritesOf(const Graph& graph, const Node& node);

// Whether a result may lie over all operands for which `lies_there` holds. A loop must read them as one operand only, and
// another node as such that its kernels may overwrite.
bool MayOverwriteAll(const Graph& graph, const Node& node, size_t result,
                     llvm::function_ref<bool(ValueId)> lies_there);

// Books a node's workspace. `tokens`: those of the loop that contains it (runtime/plan/token_loops.h), or 1.
void AssignWorkspace(const Graph& graph, Node& node, int64_t tokens, int64_t limit_bytes);

// Assigns storages anew, for a graph whose order or loops have changed since. over_scores: results of losses may lie over
// their operands.
void AssignStorages(StepGraph& step, bool over_scores = true);

// Whether the node makes the probabilities of a loss, or their gradient.
bool IsOfLoss(const Node& node);

}  // namespace act
