// Convolutions of bfloat16 whose result is float32, or is rounded after a bias was added.
#pragma once

#include "kernels/cuda/context.h"
#include "kernels/cuda/conv_site.h"

namespace act::cuda {

// The site has tensors, and windows that the library takes; its operand 0 is bfloat16.
std::unique_ptr<Kernel> CreateWidenedConv(const CudaContext& context, ConvolutionDirection direction,
                                          const KernelSite& site, const ConvShape& shape, std::string* why);

}  // namespace act::cuda
