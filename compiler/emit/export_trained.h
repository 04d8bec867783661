// Writes the model that a plan was made from, with its trained weights.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>

#include "runtime/plan/plan.h"

namespace act {

// Writes the plan's model with `values` (by the model's own names: parameters and running
// statistics, float32, in the model's layouts) in place of its initializers, ready for inference:
// BatchNormalization uses its stored statistics and Dropout is off. Weights of more than
// `inline_limit` bytes together go to `<path>.data` beside it. Errors: a plan without a model, an
// initializer for which there is no value or one of another size, a file that cannot be written.
llvm::Error ExportTrainedOnnx(const Plan& plan, const std::map<std::string, HostTensor>& values,
                              const std::string& path,
                              int64_t inline_limit = int64_t{3} << 29 /* 1.5 GiB; protobuf ends at 2 */);

}  // namespace act
