// Swapping: a stored code waits for the backward pass in another memory. A plan knows two memories,
// each with an arena: the device's, where all computation takes place, and the host's, which only
// the operators SwapOut and SwapIn reach. On a CPU both are RAM.
#pragma once

#include <llvm/Support/Error.h>

#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/runtime_op.h"

namespace act {

// For each storage, whether it lies in the host's arena. It does if SwapOut writes it.
std::vector<bool> HostStorages(const StepGraph& step);

// For each value, the value whose bytes it holds, seen through SwapOut and SwapIn. A value that
// neither of them made maps to itself.
std::vector<ValueId> BeforeSwaps(const Graph& graph);

// Removes SwapOut and SwapIn from the step. Readers then read what was swapped. Positions of nodes
// change.
void RemoveSwaps(StepGraph& step);

// Checks the swaps of an untrusted plan, whose ids and numbers of operands have been checked
// before. SwapOut and SwapIn copy one value between the two memories. No other node, no input, no
// output and no value that keeps its place may use the host's memory. Errors name the node or
// value.
llvm::Error CheckSwaps(const StepGraph& step);

}  // namespace act
