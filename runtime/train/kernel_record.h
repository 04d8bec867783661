// Which kernels made a checkpoint. A run that goes on with others computes other bits.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

#include "runtime/executor/executor.h"

namespace act {

// In a checkpoint: `kernels`, two i64.
struct KernelRecord {
  int64_t work = 0;     // a hash of what is computed: the batch size, and the operator of each node
  int64_t kernels = 0;  // a hash of the name of each node's kernel
};

// Of a training step with a full batch.
KernelRecord RecordOf(const Executor& executor);

// A line for the user if the checkpoint was made by the same work with other kernels. Empty if it was not, or
// if the file does not tell. Errors: a file that is not a checkpoint, a tensor of another type.
llvm::Expected<std::string> CompareKernels(const std::string& checkpoint, const Executor& executor);

}  // namespace act
