// Matrix products with a frozen weight that lies in memory as a code.
#pragma once

#include "kernels/cuda/context.h"
#include "kernels/site/matmul_shape.h"

namespace act::cuda {

// Of the node's inputs 0 and 1, the code, into its output 0: a piece of the weight after the other is decoded into the
// workspace and multiplied by the library. Refuses with its reason.
std::unique_ptr<Kernel> CreateCodedProduct(const CudaContext& context, const KernelSite& site,
                                           std::string* why);

}  // namespace act::cuda
