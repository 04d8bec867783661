// actplan show --kernels: the kernels and library engines that a machine would run for a plan. The
// machine need not be here.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

#include "runtime/plan/plan.h"
#include "tools/target_flag.h"

namespace act {

// A line for each node of the training step, with the kernels that refused. `target` is the processor,
// or a card that is named. The sources of a card's kernels are written to `dump_folder`, if it is not
// empty. Errors: a card without a name, a build without CUDA, a folder that cannot be written.
llvm::Expected<std::string> DescribeKernels(const Plan& plan, int64_t batch, const TargetChoice& target,
                                            const std::string& dump_folder);

}  // namespace act
