// Recurrent cells: a product with packed weights and an elementwise part for each step.
#pragma once

#include <memory>

#include "kernels/cpu/dnnl_call.h"

namespace act {

void RegisterCpuRecurrent(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);

}  // namespace act
