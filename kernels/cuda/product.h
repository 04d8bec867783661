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

// Whether a library may take the site's float32 operands: where a tile of samples runs at a time, an operand begins at any
// sample, and libraries expect vectors of four.
bool AlignedForLibraries(const KernelSite& site, std::string* why);

}  // namespace act::cuda
