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

// Of a product with scratch space of the caller's. `adds`: to what the result holds.
dnnl::primitive_attr ProductAttributes(bool adds);

// An operand of a product as oneDNN sees it: `batch` axes, with extent 1 where the operand
// broadcasts, and a matrix given by its two strides.
dnnl::memory::desc DnnlMatrix(dnnl::memory::data_type type, const Strided& batch, int64_t rows,
                              int64_t columns, int64_t row_stride, int64_t column_stride);
// The batch axes of y, which is dense.
Strided DnnlResultBatch(const MatMulShape& shape);
// No batch axis with more than one matrix: for a bias.
Strided DnnlOneMatrix(const MatMulShape& shape);

void RegisterDnnlMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);
// Products of bfloat16 factors. Whether the processor multiplies these faster than float32.
bool DnnlBFloat16IsFast();
void RegisterDnnlBFloat16MatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);
// The same where a float32 factor is too large to be rounded whole.
void RegisterPiecedMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);
// The same where the other factor is the code of a frozen weight.
void RegisterCodedMatMul(KernelRegistry& registry, const std::shared_ptr<DnnlContext>& context);

}  // namespace act
