// Makes ahead of a run what a card needs for a plan: code of all kernels, engines of all convolutions.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_device.h"
#include "runtime/executor/bound_graph.h"
#include "runtime/plan/plan.h"

namespace act::cuda {

// For runs of `plan` at the layout's batch, with any arithmetic of actrun --fpmath. The card need not be
// here. `host`: the processor's kernels. `kernels`: how code is kept, and who is told of long work. Errors:
// an operator without a kernel, code that does not compile.
llvm::Expected<std::shared_ptr<const Prepared>> Prepare(std::unique_ptr<Toolkit> toolkit, const Plan& plan,
                                                        const MemoryLayout& layout,
                                                        const KernelRegistry& host,
                                                        const KernelCacheOptions& kernels);

// Why this card does not run what is prepared, or not all of it, in a line. Empty: it does.
std::string MisfitOf(const Prepared& prepared, const Card& card, const KernelCache& cache,
                     const ConvolutionLibrary& library);

}  // namespace act::cuda
