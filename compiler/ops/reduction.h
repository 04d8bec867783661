// Shared by the reductions of floats and of integers.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/ops/op_table.h"

namespace act {

// The dims of operand 0 without the axes of attribute `axes`; with `keepdims` they have extent 1.
// An error where there is no such axis.
llvm::Expected<Dims> ReducedDims(const InferContext& context);

}  // namespace act
