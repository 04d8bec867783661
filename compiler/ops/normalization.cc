// Batch normalization, channels-last. `BatchNorm` is what models contain; lowering turns it into the other
// operators here, in the form for training (batch statistics) or for evaluation (stored statistics).
#include "compiler/autodiff/grad_context.h"
#include "compiler/ops/elementwise.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"

namespace act {
namespace {

using B = ExprBuilder;
using Regs = std::vector<int>;

llvm::Error CheckChannels(InferContext& c, size_t first) {
  if (c.in(0).rank() < 2) return c.Fail("input " + ToString(c.in(0)) + " needs rank 2 at least");
  const Dims channels{c.in(0).dims.back()};
  for (size_t i = first; i < c.inputs.size(); ++i)
    if (c.Has(i) && c.in(i).dims != channels)
      return c.Fail("operand " + std::to_string(i) + " is " + ToString(c.in(i)) + ", must be f32" +
                    ToString(channels));
  return llvm::Error::success();
}

llvm::Error InferSame(InferContext& c) {
  c.outputs[0] = c.in(0);
  return CheckChannels(c, 1);
}

// Results behind the first are the batch's mean and rstd, for a gradient that the model has.
llvm::Error InferBatchNorm(InferContext& c) {
  for (TensorType& out : c.outputs)
    out = {DType::kFloat32, {c.in(0).dims.empty() ? Dim(1) : c.in(0).dims.back()}};
  return InferSame(c);
}

llvm::Error InferStats(InferContext& c) {
  const TensorType channel{DType::kFloat32, {c.in(0).dims.back()}};
  for (TensorType& out : c.outputs) out = channel;
  return CheckChannels(c, 1);
}

llvm::Error InferGrad(InferContext& c) {
  c.outputs[0] = c.in(0);
  return CheckChannels(c, 2);
}

// (x - mean) rstd gamma + beta as one multiply-add of columns: x (rstd gamma) + (beta - mean rstd gamma).
int ApplyExpr(B& b, const Node&, const Regs& r) {
  const int scale = b.Mul(r[2], r[3]);
  return b.Fma(r[0], scale, b.Sub(r[4], b.Mul(r[1], scale)));
}

int NormalizeExpr(B& b, const Node&, const Regs& r) { return b.Fma(r[0], r[2], b.Neg(b.Mul(r[1], r[2]))); }

// dx = rstd gamma (dy - sum_dy / n - xhat sum_dy_xhat / n), n = elements per channel; Ioffe and Szegedy 2015,
// section 3. inputs: dy, xhat, rstd, gamma, sum_dy, sum_dy_xhat
int InputGradExpr(B& b, const Node& node, const Regs& r) {
  const auto e = node.attrs.Ints("extent", {1, 0, 0});
  const int inverse_n = b.Over(1, Dim(e[0], e[1], e[2]));
  const int scale = b.Mul(r[2], r[3]);
  const int scale_n = b.Neg(b.Mul(scale, inverse_n));
  const int slope = b.Mul(scale_n, r[5]), offset = b.Mul(scale_n, r[4]);
  return b.Fma(r[0], scale, b.Fma(r[1], slope, offset));
}

// y = BatchNormApply(x, mean, rstd, gamma, beta), where mean and rstd are those of x (batch = 1) or constants
// (batch = 0).
void ApplyGrad(GradContext& g) {
  const ValueId x = g.in(0), mean = g.in(1), rstd = g.in(2), gamma = g.in(3);
  const bool batch_statistics = g.attrs().Int("batch") != 0;
  const auto rows = [&g, x] {
    Attributes attrs;
    std::vector<int64_t> axes;
    for (int64_t i = 0; i + 1 < g.type(x).rank(); ++i) axes.push_back(i);
    attrs.Set("axes", axes);
    attrs.Set("keepdims", int64_t{0});
    return attrs;
  }();
  ValueId xhat = kNoValue, sum_dy = kNoValue, sum_dy_xhat = kNoValue;
  const bool through = batch_statistics && g.Wants(0);
  if (g.Wants(3) || through) {
    xhat = g.Derive("Normalize", {g.Save(x), g.Save(mean, Need::kStats), g.Save(rstd, Need::kStats)});
    sum_dy_xhat = g.Emit("ReduceSum", {g.Emit("Mul", {g.dout(), xhat})}, rows);
  }
  if (g.Wants(4) || through) sum_dy = g.Emit("ReduceSum", {g.dout()}, rows);
  if (g.Wants(3)) g.SetGrad(3, sum_dy_xhat);
  if (g.Wants(4)) g.SetGrad(4, sum_dy);
  if (!g.Wants(0)) return;
  if (!batch_statistics) {
    const ValueId scale = g.Derive("Mul", {g.Save(rstd, Need::kStats), g.Save(gamma)});
    return g.SetGrad(0, g.Emit("Mul", {g.dout(), scale}));
  }
  Dim n(1);
  const Dims dims = g.type(x).dims;
  for (size_t i = 0; i + 1 < dims.size(); ++i) n = n * dims[i];
  Attributes attrs;
  attrs.Set("extent", std::vector<int64_t>{n.fixed, n.per_batch, n.per_batch2});
  g.SetGrad(0,
            g.Emit("BatchNormGradInput",
                   {g.dout(), xhat, g.Save(rstd, Need::kStats), g.Save(gamma), sum_dy, sum_dy_xhat}, attrs));
}

}  // namespace

void AddNormalizationOps(std::vector<OpDef>& ops) {
  // x, gamma, beta, running_mean, running_var
  ops.push_back({.name = "BatchNorm", .min_inputs = 5, .max_inputs = 5, .infer = InferBatchNorm});
  ops.push_back(
      {.name = "BatchNormStats", .min_inputs = 1, .max_inputs = 3, .infer = InferStats, .mutates = {1, 2}});
  ops.push_back({.name = "BatchNormApply",
                 .min_inputs = 5,
                 .max_inputs = 5,
                 .infer = InferSame,
                 .grad = ApplyGrad,
                 .expr = ApplyExpr});
  ops.push_back(
      {.name = "Normalize", .min_inputs = 3, .max_inputs = 3, .infer = InferSame, .expr = NormalizeExpr});
  ops.push_back({.name = "BatchNormGradInput",
                 .min_inputs = 6,
                 .max_inputs = 6,
                 .infer = InferGrad,
                 .expr = InputGradExpr});
  ops.push_back({.name = "InverseDeviation",  // 1 / sqrt(variance + epsilon)
                 .infer = InferElementwise,
                 .expr = [](B& b, const Node& n, const Regs& r) {
                   const int eps = b.Const(static_cast<float>(n.attrs.Float("epsilon", 1e-5)));
                   return b.Div(b.Const(1), b.Unary(Opcode::kSqrt, b.Add(r[0], eps)));
                 }});
}

}  // namespace act
