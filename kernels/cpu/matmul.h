// Matrix products by oneDNN on plain row-major operands.
#pragma once

#include <memory>

#include "kernels/cpu/dnnl_call.h"
#include "kernels/site/matmul_shape.h"

namespace act {

// The product of two inputs into output 0. Uses the first of `thread_counts` for which the scratch
// fits the site's workspace. Null if there is none, with the reason in *why.
std::unique_ptr<Kernel> CreateDnnlProduct(const DnnlContext& context, const KernelSite& site,
                                          const MatMulShape& shape, ProductOperands operands,
                                          const std::vector<int>& thread_counts, std::string* why);

void RegisterDnnlMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);

}  // namespace act
