// Gradients of layers: convolution, pooling, resizing and norms. Images are channels-last here.
#include "compiler/import/ops/window.h"
#include "compiler/import/training/gradient_rules.h"
#include "compiler/ops/grad_context.h"

namespace act::onnx_import {
namespace {

// Sums dY, channels-last, over all axes but the channels: output 2.
llvm::Error ReturnBiasGradient(NodeContext& c, ValueId dy) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i + 1 < c.TypeOf(dy).rank(); ++i) axes.push_back(i);
  ACT_TRY(const ValueId db, c.Emit("ReduceSum", {dy}, Over(axes, false)));
  return c.Set(2, db);
}

// dY, X, W -> dX, dW, dB
llvm::Error ImportConvGrad(NodeContext& c) {
  ACT_TRY(std::vector<int64_t> kernel, KernelOfWeight(c, c.DimsOf(2)));
  ACT_TRY(const Window window, ReadWindow(c, std::move(kernel), c.DimsOf(1)));
  Attributes attrs = window.ToAttributes();
  attrs.Set("group", c.attrs.Int("group", 1));
  Values in;
  for (size_t i = 0; i < 3; ++i) {
    ACT_TRY(ValueId value, c.Value(i));
    if (i < 2) {
      ACT_TRY(value, c.ToChannelsLast(value));
    }
    in.push_back(value);
  }
  Node conv = Forward("Conv", {in[1], in[2]}, in[0], std::move(attrs));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(conv), {in[0]}, {c.WantsOutput(0), c.WantsOutput(1)}));
  if (c.WantsOutput(0)) {
    ACT_TRY(const ValueId dx, c.ToChannelsFirst(grads[0]));
    ACT_CHECK_OK(c.Set(0, dx));
  }
  if (c.WantsOutput(1)) ACT_CHECK_OK(c.Set(1, grads[1]));
  if (!c.WantsOutput(2)) return llvm::Error::success();
  return ReturnBiasGradient(c, in[0]);
}

// dY, X, W -> dX, dW, dB
llvm::Error ImportConvTransposeGrad(NodeContext& c) {
  ACT_TRY(Node forward, ForwardNode(c, "ConvGradInput"));
  ACT_TRY(ValueId dy, c.Value(0));
  ACT_TRY(dy, c.ToChannelsLast(dy));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(forward), {dy}, {c.WantsOutput(0), c.WantsOutput(1)}));
  if (c.WantsOutput(0)) ACT_CHECK_OK(c.Return(c.ToChannelsFirst(grads[0])));
  if (c.WantsOutput(1)) ACT_CHECK_OK(c.Set(1, grads[1]));
  return c.WantsOutput(2) ? ReturnBiasGradient(c, dy) : llvm::Error::success();
}

// dY, X, scale, saved mean, saved 1 / deviation -> dX, dscale, dB
llvm::Error ImportBatchNormalizationGrad(NodeContext& c) {
  Values in;
  for (size_t i = 0; i < 5; ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    in.push_back(value);
  }
  const bool spatial = c.Type(1).rank() > 2;
  for (size_t i = 0; i < 2 && spatial; ++i) {
    ACT_TRY(in[i], c.ToChannelsLast(in[i]));
  }
  // The rule takes x, mean, rstd, gamma and beta. It reads only the type of beta, which is gamma's.
  Attributes attrs;
  attrs.Set("batch", int64_t{1});
  Node apply = Forward("BatchNormApply", {in[1], in[3], in[4], in[2], in[2]}, in[1], std::move(attrs));
  ACT_TRY(const Values grads,
          ApplyRule(c, std::move(apply), {in[0]},
                    {c.WantsOutput(0), false, false, c.WantsOutput(1), c.WantsOutput(2)}));
  if (c.WantsOutput(0)) {
    ValueId dx = grads[0];
    if (spatial) {
      ACT_TRY(dx, c.ToChannelsFirst(dx));
    }
    ACT_CHECK_OK(c.Set(0, dx));
  }
  if (c.WantsOutput(1)) ACT_CHECK_OK(c.Set(1, grads[3]));
  return c.WantsOutput(2) ? c.Set(2, grads[4]) : llvm::Error::success();
}

// The gradient of a node of one operand, channels-last, from dY.
llvm::Error ReturnImageGradient(NodeContext& c, Node forward) {
  ACT_TRY(ValueId dy, c.Value(0));
  ACT_TRY(dy, c.ToChannelsLast(dy));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(forward), {dy}, {true}));
  return c.Return(c.ToChannelsFirst(grads[0]));
}

// dY, mask -> dX. The mask stands for the index that our MaxPool keeps.
llvm::Error ImportMaxPoolGrad(NodeContext& c) {
  ACT_TRY(Node pool, MakerOfKept(c, 1, "MaxPool"));
  return ReturnImageGradient(c, std::move(pool));
}

// dY -> dX, and dY, X, roi, scales -> dX. What the window is, and which extents X has, only the
// forward node knows.
llvm::Error ImportAveragePoolGrad(NodeContext& c) {
  ACT_TRY(Node pool, ForwardNode(c, "AveragePool"));
  return ReturnImageGradient(c, std::move(pool));
}
llvm::Error ImportResizeGrad(NodeContext& c) {
  ACT_TRY(Node resize, ForwardNode(c, "Resize"));
  if (resize.inputs[0] == c.In(1).value) {  // it resizes other axes than those of an image
    ACT_TRY(const ValueId dy, c.Value(0));
    ACT_TRY(const Values grads, ApplyRule(c, std::move(resize), {dy}, {true}));
    return c.Set(0, grads[0]);
  }
  return ReturnImageGradient(c, std::move(resize));
}

// dY, X, scale, mean, 1 / deviation -> dX, dscale, dB: with g = dY scale and xhat the normalized X,
// dX = (g - mean(g) - xhat mean(g xhat)) / deviation over the axes from `axis` on. The simplified
// norm (RMS) has no mean and no dB.
llvm::Error ImportLayerNormalizationGrad(NodeContext& c) {
  const size_t rank = c.DimsOf(1).size();
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", -1), rank));
  const bool centred = c.node.op_type() == "LayerNormalizationGrad";
  Values in;
  for (size_t i = 0; i < c.inputs(); ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    in.push_back(value);
  }
  if (c.Type(0) != c.Type(1))
    return c.Fail("the gradient is " + ToString(c.Type(0)) + ", X is " + ToString(c.Type(1)));
  const ValueId dy = in[0], x = in[1], scale = in[2], inverse = in.back();
  std::vector<int64_t> rows, columns;
  for (size_t i = 0; i < rank; ++i) (i < axis ? rows : columns).push_back(static_cast<int64_t>(i));
  std::vector<ValueId> saved;
  Node node = Forward("LayerNormalization", {}, x, {});
  node.name = c.name();
  GradContext g(c.builder(), node, {dy}, {}, true, saved);
  const ValueId shifted = centred ? g.Derive("Sub", {g.Save(x), g.Save(in[3])}) : g.Save(x);
  const ValueId xhat = g.Derive("Mul", {shifted, g.Save(inverse)});
  const auto mean_over = [&](ValueId v) { return g.Emit("ReduceMean", {v}, Over(columns, true)); };
  const ValueId scaled = g.Emit("Mul", {dy, scale});
  const ValueId shift = centred ? g.Emit("Sub", {scaled, mean_over(scaled)}) : scaled;
  const ValueId slope = g.Emit("Mul", {xhat, mean_over(g.Emit("Mul", {scaled, xhat}))});
  const ValueId dx = g.Emit("Mul", {g.Emit("Sub", {shift, slope}), inverse});
  const ValueId dscale = g.Emit("ReduceSum", {g.Emit("Mul", {dy, xhat})}, Over(rows, false));
  const ValueId db = centred ? g.Emit("ReduceSum", {dy}, Over(rows, false)) : kNoValue;
  ACT_CHECK_OK(g.TakeError());
  ACT_CHECK_OK(c.Set(0, dx));
  ACT_CHECK_OK(c.Set(1, dscale));
  return centred ? c.Set(2, db) : llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& LayerGradients() {
  static const std::vector<ImportEntry> entries = {
      {"ConvGrad", 3, 3, ImportConvGrad, kMicrosoft},
      {"ConvTransposeGrad", 3, 3, ImportConvTransposeGrad, kMicrosoft},
      {"BatchNormalizationGrad", 5, 5, ImportBatchNormalizationGrad, kMicrosoft},
      {"MaxPoolGrad", 2, 2, ImportMaxPoolGrad},
      {"AveragePoolGrad", 1, 1, ImportAveragePoolGrad},
      {"ResizeGrad", 2, 4, ImportResizeGrad, kMicrosoft},
      {"LayerNormalizationGrad", 5, 5, ImportLayerNormalizationGrad, kMicrosoft},
      {"SimplifiedLayerNormalizationGrad", 4, 4, ImportLayerNormalizationGrad, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
