// The conditions that a plan must meet before anything trusts it. They are checked when it is
// written and when it is read.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/plan/plan.h"

namespace act {

// The most axes of a value. No model has more, and kernels may keep dims in fixed arrays.
inline constexpr int64_t kMostAxes = 16;

// Nodes are of operators of plans, and have as many operands and results as these take
// (runtime_op.h). Attributes have the types that the runtime reads. Ids and positions are in range.
// Nodes come after what they read. Types and sizes are possible. Programs fit their operands. Data
// has the size that its type says. No storage is overwritten before the last read of a value in it.
// An error means a damaged or hostile file, or a defect of the compiler. Whether a kernel accepts a
// node's shapes and the values of its attributes is up to the kernel.
llvm::Error CheckPlan(const Plan& plan);

// The same for one step graph. Errors name the node or value.
llvm::Error CheckStepGraph(const StepGraph& step);

}  // namespace act
