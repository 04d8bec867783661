// Matrix products by oneDNN on plain row-major operands.
#pragma once

#include <memory>

#include "kernels/cpu/dnnl_call.h"

namespace act {

void RegisterDnnlMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);

}  // namespace act
