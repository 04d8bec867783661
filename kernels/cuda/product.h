// Matrix products of a node's inputs into its output 0, for MatMul and for convolutions by single pixels.
#pragma once

#include <memory>

#include "kernels/cuda/context.h"
#include "kernels/site/matmul_shape.h"

namespace act::cuda {

// By the library. Refuses with its reason; and empty operands, which it does not know.
std::unique_ptr<Kernel> CreateLibraryProduct(const CudaContext& context, const KernelSite& site,
                                             const MatMulShape& shape, ProductOperands operands,
                                             FloatMath math, std::string* why);
// By our own tiles, for every shape. Products of no summands are the bias, or 0.
std::unique_ptr<Kernel> CreateProductTiles(const CudaContext& context, const KernelSite& site,
                                           const MatMulShape& shape, ProductOperands operands,
                                           std::string* why);

// Of the addresses of the site's operands, in bytes, up to 16. Where a tile of samples runs at a time, they
// begin at any sample.
int64_t OperandAlignment(const KernelSite& site);

}  // namespace act::cuda
