// The mean that a LayerNorm takes, shared by its lowering and its gradient.
#pragma once

#include "compiler/ops/graph_builder.h"

namespace act {

// The mean of x over the axes of `norm`, the attributes of a LayerNorm, with extent 1 on each. With
// groups, each channel gets the mean of all channels of its group.
llvm::Expected<ValueId> NormMean(GraphBuilder& builder, ValueId x, const Attributes& norm,
                                 const std::string& name);

}  // namespace act
