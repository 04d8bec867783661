// The invariants of a graph at each stage of compilation. --verify-each checks them after every
// pass, and tests always do.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/plan/graph.h"

namespace act {

enum class Stage {
  kImported,    // forward graph, and the backward pass where the model has its own
  kTraining,    // forward, backward and update
  kCompressed,  // the backward pass reads forward values only in the forms that the policy chose
  kFused,       // only operators that a plan may contain (runtime/plan/runtime_op.h)
};

// At every stage: ids are in range. Each value is made once, before it is read. Every operator is
// known, has as many operands as it takes, and has the result types that its `infer` derives.
// Nothing reads a parameter after its update. Inputs and outputs exist. From kTraining on: forward
// nodes read nothing that the backward pass makes. Errors name the node.
llvm::Error Verify(const Graph& graph, Stage stage);

}  // namespace act
