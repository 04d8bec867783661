// Shared by the elementwise families.
#pragma once

#include <vector>

#include "compiler/ops/op_table.h"

namespace act {

// Takes f32 operands that broadcast against each other. Makes one f32 result of their common shape.
llvm::Error InferElementwise(InferContext& context);

void AddUnaryOps(std::vector<OpDef>& ops);
void AddBinaryOps(std::vector<OpDef>& ops);

}  // namespace act
