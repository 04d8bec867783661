// Matrix products and determinants.
#include "compiler/import/ops/integers.h"

namespace act::onnx_import {
namespace {

llvm::Expected<ValueId> Scaled(NodeContext& c, ValueId x, double factor) {
  if (factor == 1) return x;
  return c.Emit("Mul", {x, c.builder().Scalar(static_cast<float>(factor))});
}

llvm::Error ImportGemm(NodeContext& c) {  // alpha A' B' + beta C, C broadcast to [M, N]
  ACT_TRY(const ValueId a, c.Value(0));
  ACT_TRY(const ValueId b, c.Value(1));
  if (c.Type(0).rank() != 2 || c.Type(1).rank() != 2) return c.Fail("operands must be matrices");
  Attributes attrs;
  attrs.Set("trans_a", c.attrs.Int("transA"));
  attrs.Set("trans_b", c.attrs.Int("transB"));
  ACT_TRY(ValueId y, c.Emit("MatMul", {a, b}, attrs));
  ACT_TRY(y, Scaled(c, y, c.attrs.Float("alpha", 1)));
  const double beta = c.attrs.Float("beta", 1);
  if (!c.Has(2) || beta == 0 || c.Number(2) == 0) return c.Set(0, y);
  ACT_TRY(ValueId bias, c.Value(2));
  ACT_TRY(bias, Scaled(c, bias, beta));
  return c.Return(c.Emit("Add", {y, bias}));
}

llvm::Error ImportMatMul(
    NodeContext& c) {  // numpy's matmul: a vector is a row on the left, a column on the right
  ACT_TRY(ValueId a, c.Value(0));
  ACT_TRY(ValueId b, c.Value(1));
  const size_t a_rank = c.DimsOf(0).size(), b_rank = c.DimsOf(1).size();
  if (a_rank == 0 || b_rank == 0) return c.Fail("operands must not be scalars");
  if (a_rank == 1) {
    ACT_TRY(a, c.Reshape(a, {1, c.DimsOf(0)[0]}));
  }
  if (b_rank == 1) {
    ACT_TRY(b, c.Reshape(b, {c.DimsOf(1)[0], 1}));
  }
  ACT_TRY(const ValueId y, IsInteger(c.Type(0).dtype) && c.Type(0).dtype == c.Type(1).dtype
                               ? MultiplyIntegerMatrices(c, a, b)
                               : c.Emit("MatMul", {a, b}));
  Dims dims = c.TypeOf(y).dims;
  if (b_rank == 1) dims.pop_back();
  if (a_rank == 1) dims.erase(dims.end() - (b_rank == 1 ? 1 : 2));
  return c.Return(c.Reshape(y, dims));
}

llvm::Error ImportDet(NodeContext& c) {
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit("Det", {x}));
}

}  // namespace

const std::vector<ImportEntry>& MatMulImports() {
  static const std::vector<ImportEntry> entries = {
      {"Gemm", 2, 3, ImportGemm},
      {"MatMul", 2, 2, ImportMatMul},
      {"Det", 1, 1, ImportDet},
  };
  return entries;
}

}  // namespace act::onnx_import
