// A batched matrix product as extents and strides.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernels/site/strided.h"
#include "runtime/executor/kernel.h"

namespace act {

// y[b,i,j] = bias[j] + sum over p of A * B, where A is a[a_batch.At(b) + i*a_m + p*a_k] and B is
// b[b_batch.At(b) + p*b_k + j*b_n]
struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0;  // element strides
  Strided a_batch = {}, b_batch = {};          // y's batch axes; stride 0: it broadcasts
  int64_t Batches() const { return a_batch.Elements(); }
};

// For kernels of float32 alone.
std::optional<MatMulShape> MatMulShapeOf(const Attributes& attrs, const TensorView& a, const TensorView& b,
                                         const TensorView& y, std::string* why);
// For kernels that also take bfloat16, for one factor or both, and then for the result.
std::optional<MatMulShape> MixedMatMulShapeOf(const Attributes& attrs, const TensorView& a,
                                              const TensorView& b, const TensorView& y, std::string* why);

// The same products with as few batches as describe them: x [B.., M, K] times a single matrix is one product
// of B*M rows.
MatMulShape Folded(MatMulShape shape);

// Which of the node's inputs are the operands of the product.
struct ProductOperands {
  size_t a = 0, b = 1;
  std::optional<size_t> bias = std::nullopt;  // [columns]
};

// Whether the node's third operand, if it has one, is a bias [columns].
bool BiasFits(const MatMulShape& shape, std::span<const TensorView> operands, std::string* why);

}  // namespace act
