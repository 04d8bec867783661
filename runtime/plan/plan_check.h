// What must hold of a plan before anything trusts it: checked when it is written and when it is
// read.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/plan/plan.h"

namespace act {

inline constexpr int64_t kMostAxes = 16;  // of a value

// Nodes have as many operands and results as their operator takes (ops/runtime_op.h; an operator
// that is not there is left to the executor, which finds no kernel for it). Ids and positions are
// in range, nodes come after what they read, types and sizes are possible, programs fit their
// operands, data has the size that its type says, and no storage is overwritten while a value in it
// is still to be read. An error means a damaged or hostile file, or a defect of the compiler.
// Whether a kernel accepts a node's shapes and attributes is the kernel's to say.
llvm::Error CheckPlan(const Plan& plan);

// The same of one step graph; errors name the node or value.
llvm::Error CheckStepGraph(const StepGraph& step);

}  // namespace act
