// Determinants of small square matrices: x [..,n,n] -> [..].
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"
#include "runtime/plan/operand_extents.h"

namespace act {
namespace {

// Errors: x holds no square matrices, or too large ones.
llvm::Error CheckMatrices(const InferContext& c, const TensorType& x) {
  const bool square = x.dtype == DType::kFloat32 && x.rank() >= 2 && x.dims.back().IsFixed() &&
                      x.dims[x.dims.size() - 2] == x.dims.back();
  if (!square) return c.Fail("needs square matrices of f32, the operand is " + ToString(x));
  if (x.dims.back().fixed <= kMostDeterminantRows) return llvm::Error::success();
  return c.Fail("the operand is " + ToString(x) + "; matrices have at most " +
                std::to_string(kMostDeterminantRows) + " rows");
}

llvm::Error InferDet(InferContext& c) {
  ACT_CHECK_OK(CheckMatrices(c, c.in(0)));
  c.outputs[0] = {DType::kFloat32, {c.in(0).dims.begin(), c.in(0).dims.end() - 2}};
  return llvm::Error::success();
}

llvm::Error InferDetGrad(InferContext& c) {
  ACT_CHECK_OK(CheckMatrices(c, c.in(1)));
  if (c.in(0) != TensorType{DType::kFloat32, {c.in(1).dims.begin(), c.in(1).dims.end() - 2}})
    return c.Fail("gradient " + ToString(c.in(0)) + " does not fit matrices " + ToString(c.in(1)));
  c.outputs[0] = c.in(1);
  return llvm::Error::success();
}

// d/dx = dy times the cofactors of x. They are products of n - 1 elements, so an error of x would bias them.
void DetGrad(GradContext& g) { g.SetGrad(0, g.Emit("DetGrad", {g.dout(), g.Save(g.in(0))})); }

// Elimination takes n / 3 multiply-adds for each element, and the cofactors n more.
Dim Flops(const TensorType& x, int64_t thirds) {
  return x.Elements() * Dim(1 + 2 * thirds * x.dims.back().fixed / 3);
}

}  // namespace

void AddDeterminantOps(std::vector<OpDef>& ops) {
  ops.push_back({.name = "Det",
                 .infer = InferDet,
                 .grad = DetGrad,
                 .flops = [](const Node& n, const Graph& g) { return Flops(g.value(n.inputs[0]).type, 1); },
                 .nonlinear = true,
                 .onnx = SameInOnnx});
  ops.push_back({.name = "DetGrad",
                 .infer = InferDetGrad,
                 .flops = [](const Node& n, const Graph& g) { return Flops(g.value(n.inputs[1]).type, 4); },
                 .gradient = true,
                 .nonlinear = true,
                 .needs = {Need::kNumbers, Need::kExactly}});
}

}  // namespace act
