// Convolution by oneDNN, with plain channels-last activations. Weights are packed into oneDNN's
// blocked layout at each run.
#pragma once

#include <memory>

#include "kernels/cpu/dnnl_call.h"

namespace act {

void RegisterDnnlConv(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);

}  // namespace act
