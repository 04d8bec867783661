// How long the kernels that accept a site take there, on the tensors' own places.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"
#include "runtime/executor/kernel_choice.h"

namespace act {

// Seconds since some moment.
using SecondsClock = std::function<double()>;

struct NamedKernel {
  std::string name;
  std::unique_ptr<Kernel> kernel;
};

// Moments of a clock.
struct TimeLimit {
  double enough = 0;  // each kernel has run twice, if it is not clearly slower: no more rounds
  double end = 0;     // no kernel starts to run but the first
};

// Runs the kernels by turns at a node that has its place, and chooses. The first of the list is preferred to
// those that are hardly faster, and is not timed against others where it takes a few microseconds. A kernel
// that is clearly slower than another one soon drops out.
//
// Overwrites the node's operands, results and workspace: floats are filled with numbers between -1 and 1,
// and whatever else is read with zeros, which are valid positions, labels and codes. A kernel that fails is
// no candidate. Without a candidate, the choice is empty.
llvm::Expected<KernelChoice> TimeKernels(Device& device, const BoundNode& node,
                                         const std::vector<NamedKernel>& kernels, const SecondsClock& clock,
                                         TimeLimit limit);

}  // namespace act
