// What passes add beside a cross entropy.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/ops/graph_builder.h"

namespace act {

// Adds the number by which the mean of a cross entropy is divided, f32[]: the labels that count or, with `weight`
// (kNoValue: none), the sum of the weights of their classes. `loss` has the attributes of the cross entropy or of its
// gradient.
llvm::Expected<ValueId> AddLossDenominator(GraphBuilder& builder, const Attributes& loss, ValueId label,
                                           ValueId weight, int64_t classes, const std::string& name);

}  // namespace act
