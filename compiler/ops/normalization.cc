// Normalization. Models contain `BatchNorm` (channels-last) and `LayerNorm`. Lowering turns them
// into the other operators here, BatchNorm in the form for training (batch statistics) or for
// evaluation (stored statistics). LayerNorm is any normalization by statistics of the sample
// itself: of rows (layer norm; RMS norm if it is not centered), of each channel's pixels (instance
// norm), or of a group of channels (group norm).
#include <algorithm>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/grad_context.h"
#include "compiler/ops/norm_mean.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act {
namespace {

using B = ExprBuilder;

llvm::Error CheckChannels(InferContext& c, size_t first) {
  ACT_CHECK_OK(c.CheckFloats());
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

// Results after the first are the batch's mean and rstd, for models with their own gradient.
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

// rows, mean, sum of squared deviations, least and largest x, of a channel in double
constexpr int64_t kMomentNumbers = 5;

// L5 adds the node to a step whose types may have been narrowed before.
llvm::Error InferMoments(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.rank() < 2 || (x.dtype != DType::kFloat32 && x.dtype != DType::kBFloat16))
    return c.Fail("operand 0 is " + ToString(x) + ", must be floats of rank 2 at least");
  c.outputs[0] = {DType::kFloat64, {x.dims.back(), Dim(kMomentNumbers)}};
  return llvm::Error::success();
}

// moments, running_mean?, running_var?
llvm::Error InferFromMoments(InferContext& c) {
  const TensorType& moments = c.in(0);
  if (moments.dtype != DType::kFloat64 || moments.rank() != 2 || moments.dims[1] != Dim(kMomentNumbers))
    return c.Fail("operand 0 is " + ToString(moments) + ", must be f64[C," + std::to_string(kMomentNumbers) +
                  "]");
  const TensorType channel{DType::kFloat32, {moments.dims[0]}};
  for (size_t i = 1; i < c.inputs.size(); ++i)
    if (c.Has(i) && c.in(i) != channel)
      return c.Fail("operand " + std::to_string(i) + " is " + ToString(c.in(i)) + ", must be " +
                    ToString(channel));
  for (TensorType& out : c.outputs) out = channel;
  return llvm::Error::success();
}

llvm::Error InferDistance(InferContext& c) {
  if (c.in(4) != c.in(0)) return c.Fail("operand 4, " + ToString(c.in(4)) + ", is not like the first");
  c.inputs.resize(4);
  return InferSame(c);
}

llvm::Error InferSided(InferContext& c) {
  if (c.in(4) != c.in(0)) return c.Fail("operand 4, " + ToString(c.in(4)) + ", is not like the first");
  if (c.in(3).rank() != 0) return c.Fail("operand 3 is " + ToString(c.in(3)) + ", must be a scalar");
  c.inputs.resize(3);
  return InferSame(c);
}

llvm::Error InferGrad(InferContext& c) {
  c.outputs[0] = c.in(0);
  return CheckChannels(c, 2);
}

// (x - mean) rstd gamma + beta as one multiply-add per column: x (rstd gamma) + (beta -
// mean rstd gamma).
Reg ApplyExpr(B& b, const Node&, const Regs& r) {
  const Reg scale = b.Mul(r[2], r[3]);
  return b.Fma(r[0], scale, b.Sub(r[4], b.Mul(r[1], scale)));
}

Reg NormalizeExpr(B& b, const Node&, const Regs& r) { return b.Fma(r[0], r[2], b.Neg(b.Mul(r[1], r[2]))); }

// The threshold of a ReLU after y = gamma xhat + beta, in terms of xhat: tau = -beta / gamma,
// clamped to 1.01 times the channel's largest |xhat|. If gamma = 0, y is beta everywhere.
// inputs: gamma, beta, largest |xhat|
Reg ReluThresholdExpr(B& b, const Node&, const Regs& r) {
  const Reg zero = b.Const(0), bound = b.Mul(r[2], b.Const(1.01f)), least = b.Neg(bound);
  const Reg clamped = b.Max(b.Min(b.Neg(b.Div(r[1], r[0])), bound), least);
  return b.Select(r[0], clamped, b.Select(b.Greater(r[1], zero), least, bound));
}

// The side of the threshold on which y > 0: 1, or -1 where gamma < 0.
// input: gamma
Reg ReluSideExpr(B& b, const Node&, const Regs& r) {
  return b.Select(b.Greater(b.Const(0), r[0]), b.Const(-1), b.Const(1));
}

// v = side (xhat - tau). It is above 0 exactly where `passed` is, whatever the rounding.
// inputs: x, mean, rstd, tau, passed
Reg SignedDistanceExpr(B& b, const Node&, const Regs& r) {
  const Reg distance = b.Unary(Opcode::kAbs, b.Fma(r[0], r[2], b.Neg(b.Fma(r[1], r[2], r[3]))));
  const Reg above = b.Max(distance, b.Const(1e-30f));
  return b.Select(b.Greater(r[4], b.Const(0)), above, b.Neg(above));
}

// Recomputes xhat. inputs: v, tau, side
Reg FromDistanceExpr(B& b, const Node&, const Regs& r) { return b.Fma(r[0], r[2], r[1]); }

// v = +- (xhat + 2.1 largest), with the sign of `passed`. |v| is at least 1.1 times the largest
// |xhat|, which is more than half a step of any code, so that decoded values keep their side.
// inputs: x, mean, rstd, largest |xhat|, passed
constexpr float kShift = 2.1f;
Reg SidedDistanceExpr(B& b, const Node& node, const Regs& r) {
  const Reg shifted = b.Fma(r[3], b.Const(kShift), NormalizeExpr(b, node, r));
  const Reg above = b.Max(shifted, b.Const(1e-30f));
  return b.Select(b.Greater(r[4], b.Const(0)), above, b.Neg(above));
}

// Recomputes xhat. inputs: v, largest |xhat|
Reg FromSidedExpr(B& b, const Node&, const Regs& r) {
  return b.Fma(r[1], b.Const(-kShift), b.Unary(Opcode::kAbs, r[0]));
}

// dx = rstd gamma (dy - sum_dy / n - xhat sum_dy_xhat / n), n = elements per channel (Ioffe and
// Szegedy 2015, section 3).
// inputs: dy, xhat, rstd, gamma, sum_dy, sum_dy_xhat
Reg InputGradExpr(B& b, const Node& node, const Regs& r) {
  const auto e = node.attrs.Ints("extent", {1, 0, 0});
  const Reg inverse_n = b.Over(1, Dim(e[0], e[1], e[2]));
  const Reg scale = b.Mul(r[2], r[3]);
  const Reg scale_n = b.Neg(b.Mul(scale, inverse_n));
  const Reg slope = b.Mul(scale_n, r[5]), offset = b.Mul(scale_n, r[4]);
  return b.Fma(r[0], scale, b.Fma(r[1], slope, offset));
}

// y = BatchNormApply(x, mean, rstd, gamma, beta). mean and rstd are those of x (batch = 1) or
// constants (batch = 0).
void ApplyGrad(GradContext& g) {
  const ValueId x = g.in(0), mean = g.in(1), rstd = g.in(2), gamma = g.in(3);
  const bool batch_statistics = g.attrs().Int("batch") != 0;
  const auto rows = [&g, x] {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i + 1 < g.type(x).rank(); ++i) axes.push_back(i);
    return Over(axes, false);
  }();
  ValueId xhat = kNoValue, sum_dy = kNoValue, sum_dy_xhat = kNoValue;
  const bool through = batch_statistics && g.Wants(0);
  if (g.Wants(3) || through) {
    xhat = g.Derive("Normalize", {g.Save(x), g.Save(mean), g.Save(rstd)});
    sum_dy_xhat = g.Emit("ReduceSum", {g.Emit("Mul", {g.dout(), xhat})}, rows);
  }
  if (g.Wants(4) || through) sum_dy = g.Emit("ReduceSum", {g.dout()}, rows);
  if (g.Wants(3)) g.SetGrad(3, sum_dy_xhat);
  if (g.Wants(4)) g.SetGrad(4, sum_dy);
  if (!g.Wants(0)) return;
  if (!batch_statistics) {
    const ValueId scale = g.Derive("Mul", {g.Save(rstd), g.Save(gamma)});
    return g.SetGrad(0, g.Emit("Mul", {g.dout(), scale}));
  }
  Dim n(1);
  const Dims dims = g.type(x).dims;
  for (size_t i = 0; i + 1 < dims.size(); ++i) n = n * dims[i];
  Attributes attrs;
  attrs.Set("extent", std::vector<int64_t>{n.fixed, n.per_batch, n.per_batch2});
  g.SetGrad(0, g.Emit("BatchNormGradInput",
                      {g.dout(), xhat, g.Save(rstd), g.Save(gamma), sum_dy, sum_dy_xhat}, attrs));
}

// x, gamma?, beta?: (x - mean) / sqrt(variance + epsilon) gamma + beta. Mean and variance are taken
// over `axes`, and, where `group_axis` is split into `groups` groups, over the channels of a group.
// center = 0: the mean is not subtracted.
llvm::Error InferLayerNorm(InferContext& c) {
  const Dims& dims = c.in(0).dims;
  if (c.in(0).dtype != DType::kFloat32) return c.Fail("normalizes f32, operand is " + ToString(c.in(0)));
  const auto axes = c.node.attrs.Ints("axes");
  const int64_t groups = c.node.attrs.Int("groups"), group_axis = c.node.attrs.Int("group_axis");
  if (axes.empty()) return c.Fail("has no axes");
  for (int64_t axis : axes)
    if (axis < 0 || axis >= c.in(0).rank())
      return c.Fail("axis " + std::to_string(axis) + " is outside " + ToString(c.in(0)));
  if (groups != 0) {
    const bool inside = group_axis >= 0 && group_axis < c.in(0).rank() &&
                        std::count(axes.begin(), axes.end(), group_axis) == 0;
    if (!inside || groups < 0 || !dims[static_cast<size_t>(group_axis)].IsFixed() ||
        dims[static_cast<size_t>(group_axis)].fixed % groups != 0)
      return c.Fail("cannot form " + std::to_string(groups) + " groups of axis " +
                    std::to_string(group_axis) + " of " + ToString(c.in(0)));
  }
  c.outputs[0] = c.in(0);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.Has(i)) continue;
    const std::optional<Dims> joint = Broadcast(c.in(i).dims, dims);
    if (c.in(i).dtype != DType::kFloat32 || !joint || *joint != dims)
      return c.Fail("operand " + std::to_string(i) + ", " + ToString(c.in(i)) + ", does not broadcast to " +
                    ToString(c.in(0)));
  }
  return llvm::Error::success();
}

// inputs: x, mean, rstd
Reg StandardizeExpr(B& b, const Node&, const Regs& r) { return b.Mul(b.Sub(r[0], r[1]), r[2]); }

// inputs: x, mean, rstd, gamma, beta. The mean is subtracted first, which is exact: rows may have
// means far from 0.
Reg LayerNormApplyExpr(B& b, const Node& node, const Regs& r) {
  return b.Fma(StandardizeExpr(b, node, r), r[3], r[4]);
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma (Ba, Kiros and Hinton 2016). Without
// centering, mean(g) is left out.
// inputs: g, xhat, rstd, mean(g xhat), mean(g)
Reg LayerNormGradInputExpr(B& b, const Node&, const Regs& r) {
  const Reg scale = b.Neg(r[2]);
  const Reg slope = b.Mul(scale, r[3]);
  return b.Fma(r[0], r[2], r.size() > 4 ? b.Fma(r[1], slope, b.Mul(scale, r[4])) : b.Mul(r[1], slope));
}

void LayerNormApplyGrad(GradContext& g) {
  const ValueId x = g.in(0), mean = g.in(1), gamma = g.in(3);
  const auto mean_of = [&g](ValueId v) {
    return g.Build([&](GraphBuilder& b) { return NormMean(b, v, g.attrs(), g.node().name + ".grad"); });
  };
  if (g.Wants(4)) g.SetGrad(4, g.dout());
  if (!g.Wants(0) && !g.Wants(3)) return;
  const ValueId rstd = g.Save(g.in(2));
  const ValueId xhat = g.Derive("Standardize", {g.Save(x), g.Save(mean), rstd});
  if (g.Wants(3)) g.SetGrad(3, g.Emit("Mul", {g.dout(), xhat}));
  if (!g.Wants(0)) return;
  const ValueId scaled = g.Emit("Mul", {g.dout(), g.Save(gamma)});
  std::vector<ValueId> operands = {scaled, xhat, rstd, mean_of(g.Emit("Mul", {scaled, xhat}))};
  if (g.attrs().Int("center", 1) != 0) operands.push_back(mean_of(scaled));
  g.SetGrad(0, g.Emit("LayerNormGradInput", operands));
}

}  // namespace

void AddNormalizationOps(std::vector<OpDef>& ops) {
  using Role = Normalization::Role;
  // x, mean, 1 / deviation
  const std::vector<Need> of_three = {Need::kNumbers, Need::kStatistics};
  // x, mean, 1 / deviation, ..
  const std::vector<Need> of_more = {Need::kNumbers, Need::kStatistics, Need::kStatistics, Need::kNumbers};
  // dy, xhat, 1 / deviation, ..
  const std::vector<Need> of_gradient = {Need::kNumbers, Need::kNumbers, Need::kStatistics, Need::kNumbers};
  // x, gamma, beta, running_mean, running_var. Without the last two, statistics are the batch's
  // in evaluation too.
  ops.push_back(
      {.name = "BatchNorm", .operands = {3, 5}, .infer = InferBatchNorm, .norm = {.role = Role::kWhole}});
  ops.push_back({.name = "BatchNormStats",
                 .infer = InferStats,
                 .mutates = {1, 2},
                 .norm = {.role = Role::kStatistics}});
  // The same in two steps, the first of which may run for some samples at a time.
  ops.push_back({.name = "BatchNormMoments", .infer = InferMoments});
  ops.push_back({.name = "BatchNormFromMoments", .infer = InferFromMoments, .mutates = {1, 2}});
  ops.push_back({.name = "BatchNormApply",
                 .operands = {5, 5},
                 .infer = InferSame,
                 .grad = ApplyGrad,
                 .expr = ApplyExpr,
                 .norm = {.role = Role::kApply},
                 .needs = of_more});
  ops.push_back({.name = "Normalize",
                 .operands = {3, 3},
                 .infer = InferSame,
                 .expr = NormalizeExpr,
                 .norm = {.role = Role::kNormalize},
                 .needs = of_three});
  ops.push_back(
      {.name = "ReluThreshold", .operands = {3, 3}, .infer = InferElementwise, .expr = ReluThresholdExpr});
  ops.push_back({.name = "ReluSide", .infer = InferElementwise, .expr = ReluSideExpr});
  ops.push_back({.name = "SignedDistance",
                 .operands = {5, 5},
                 .infer = InferDistance,
                 .expr = SignedDistanceExpr,
                 .norm = {.role = Role::kDistance},
                 .needs = of_more});
  ops.push_back({.name = "SidedDistance",
                 .operands = {5, 5},
                 .infer = InferSided,
                 .expr = SidedDistanceExpr,
                 .norm = {.role = Role::kDistance, .sided = true},
                 .needs = of_more});
  ops.push_back({.name = "FromSided", .operands = {2, 2}, .infer = InferElementwise, .expr = FromSidedExpr});
  ops.push_back({.name = "FromDistance", .operands = {3, 3}, .infer = InferSame, .expr = FromDistanceExpr});
  ops.push_back({.name = "BatchNormGradInput",
                 .operands = {6, 6},
                 .infer = InferGrad,
                 .expr = InputGradExpr,
                 .norm = {.role = Role::kGradient, .first_mean = 4},
                 .needs = of_gradient});
  ops.push_back({.name = "LayerNorm",
                 .operands = {1, 3},
                 .infer = InferLayerNorm,
                 .norm = {.role = Role::kWhole, .by_rows = true}});
  ops.push_back({.name = "LayerNormApply",
                 .operands = {5, 5},
                 .infer = InferLayerNorm,
                 .grad = LayerNormApplyGrad,
                 .expr = LayerNormApplyExpr,
                 .norm = {.role = Role::kApply, .by_rows = true},
                 .needs = of_more});
  ops.push_back({.name = "Standardize",
                 .operands = {3, 3},
                 .infer = InferElementwise,
                 .expr = StandardizeExpr,
                 .norm = {.role = Role::kNormalize, .by_rows = true},
                 .needs = of_three});
  ops.push_back({.name = "LayerNormGradInput",
                 .operands = {4, 5},
                 .infer = InferElementwise,
                 .expr = LayerNormGradInputExpr,
                 .norm = {.role = Role::kGradient, .by_rows = true, .first_mean = 3},
                 .needs = of_gradient});
  ops.push_back({.name = "InverseDeviation",  // 1 / sqrt(variance + epsilon)
                 .infer = InferElementwise,
                 .expr = [](B& b, const Node& n, const Regs& r) {
                   const Reg eps = b.Const(static_cast<float>(n.attrs.Float("epsilon", 1e-5)));
                   return b.Div(b.Const(1), b.Unary(Opcode::kSqrt, b.Add(r[0], eps)));
                 }});
}

}  // namespace act
