// Swapping: a stored code waits for the backward pass in another memory. A plan knows two, each
// with an arena: that of the device, where all computation is, and the host's, which operators
// SwapOut and SwapIn alone reach. On a CPU both are RAM.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/runtime_op.h"

namespace act {

// Of each storage: does it lie in the host's arena? What SwapOut writes does.
std::vector<bool> HostStorages(const StepGraph& step);

// Of each value: what it holds the bytes of, through SwapOut and SwapIn; itself, where neither made
// it.
std::vector<ValueId> BeforeSwaps(const Graph& graph);

// The same step without SwapOut and SwapIn: readers read what was swapped. Positions of nodes
// change.
void RemoveSwaps(StepGraph& step);

// For untrusted plans, whose ids and numbers of operands are checked before: copies of one value
// between the two memories, and no other node, input, output or value that keeps its place touches
// the host's. Errors name the node or value.
llvm::Error CheckSwaps(const StepGraph& step);

}  // namespace act
