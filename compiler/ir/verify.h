// What must hold of a graph at each stage of compilation. Runs after every pass under --verify-each, and
// always in tests.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/plan/graph.h"

namespace act {

enum class Stage {
  kImported,    // forward graph, and the backward pass where the model has its own
  kTraining,    // forward, backward and update
  kCompressed,  // the policy is applied: what crosses to the backward pass is what was decided
  kFused,       // only operators that a plan may contain (runtime/plan/runtime_op.h)
};

// Every stage: ids in range; each value made once, before it is read; known operators with the operands that
// they take and types that infer agrees with; nothing reads a parameter after it was updated; inputs and
// outputs exist. kTraining on: forward nodes read nothing that the backward pass makes. Errors name the node.
llvm::Error Verify(const Graph& graph, Stage stage);

}  // namespace act
