// Convolutions by our own tiles of products.
#pragma once

#include <memory>

#include "kernels/cuda/context.h"

namespace act::cuda {

// Takes every shape that device code can count.
std::unique_ptr<Kernel> CreateConvTiles(const CudaContext& context, ConvolutionDirection direction,
                                        const KernelSite& site, std::string* why);

}  // namespace act::cuda
