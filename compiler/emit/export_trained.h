// Writes the model that a plan was made from, with its trained weights.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "runtime/plan/plan.h"

namespace act {

// The bytes of a parameter or running statistic (float32, in the model's layout) by the model's own
// name; no bytes if there is none of that name. They need not outlive the next call.
using TrainedValues = std::function<llvm::Expected<std::span<const std::byte>>(const std::string& name)>;

// Writes the plan's model with `values` in place of its initializers, ready for inference:
// BatchNormalization uses its stored statistics and Dropout is off. Weights of more than
// `inline_limit` bytes together go to `<path>.data` beside it. Errors: a plan without a model, an
// initializer for which there is no value or one of another size, a file that cannot be written.
llvm::Error ExportTrainedOnnx(const Plan& plan, const TrainedValues& values, const std::string& path,
                              int64_t inline_limit = int64_t{3} << 29 /* 1.5 GiB; protobuf ends at 2 */);

}  // namespace act
