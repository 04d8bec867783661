// Gradient operators of models that bring their own backward pass (ONNX Runtime's training graphs).
// Where such a node is the gradient of one of our operators, that operator's rule in the op table
// builds it from the tensors that the node names. So each gradient is written once.
#include <algorithm>
#include <numeric>

#include "compiler/import/core/importer.h"
#include "compiler/import/ops/window.h"
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

using Values = std::vector<ValueId>;

// A node that is not in the graph. It shows a rule the operator whose gradient the rule builds.
Node Forward(const char* op, Values inputs, ValueId result, Attributes attrs) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = {result};
  node.attrs = std::move(attrs);
  return node;
}

// The gradients of the operands of `node`, one of our nodes, from the gradient of its first result.
llvm::Expected<Values> ApplyRule(NodeContext& c, Node node, ValueId dout, std::vector<bool> wanted) {
  if (c.TypeOf(dout) != c.TypeOf(node.outputs[0]))
    return c.Fail("the gradient is " + ToString(c.TypeOf(dout)) + ", what it belongs to is " +
                  ToString(c.TypeOf(node.outputs[0])));
  node.name = c.name();
  std::vector<ValueId> saved;
  Values output_grads(node.outputs.size(), kNoValue);
  output_grads[0] = dout;
  const auto* def = FindOp(node.op);
  GradContext context(c.builder(), node, std::move(output_grads), std::move(wanted), saved);
  def->grad(context);
  ACT_CHECK_OK(context.TakeError());
  return context.grads();
}

// The operator `op` of one operand, whose derivative reads its operand or its result: both are
// input 1.
llvm::Error Unary(NodeContext& c, const char* op, Attributes attrs = {}) {
  ACT_TRY(const ValueId dy, c.Value(0));
  ACT_TRY(const ValueId read, c.Value(1));
  Node node = Forward(op, {read}, read, std::move(attrs));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(node), dy, {true}));
  return c.Set(0, grads[0]);
}

llvm::Error ImportReluGrad(NodeContext& c) { return Unary(c, "Relu"); }
llvm::Error ImportSigmoidGrad(NodeContext& c) { return Unary(c, "Sigmoid"); }
llvm::Error ImportTanhGrad(NodeContext& c) { return Unary(c, "Tanh"); }

llvm::Error ImportGeluGrad(NodeContext& c) {
  Attributes attrs;
  attrs.Set("approximate", std::string("none"));
  return Unary(c, "Gelu", std::move(attrs));
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
  ACT_TRY(const Values grads, ApplyRule(c, std::move(conv), in[0], {c.WantsOutput(0), c.WantsOutput(1)}));
  if (c.WantsOutput(0)) {
    ACT_TRY(const ValueId dx, c.ToChannelsFirst(grads[0]));
    ACT_CHECK_OK(c.Set(0, dx));
  }
  if (c.WantsOutput(1)) ACT_CHECK_OK(c.Set(1, grads[1]));
  if (!c.WantsOutput(2)) return llvm::Error::success();
  std::vector<int64_t> axes;
  for (int64_t i = 0; i + 1 < c.Type(0).rank(); ++i) axes.push_back(i);
  Attributes over;
  over.Set("axes", axes);
  over.Set("keepdims", int64_t{0});
  ACT_TRY(const ValueId db, c.Emit("ReduceSum", {in[0]}, over));
  return c.Set(2, db);
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
          ApplyRule(c, std::move(apply), in[0],
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

// Our forward node whose gradient this is: the one that made input i, which it keeps for its
// gradient.
llvm::Expected<Node> MakerOfKept(NodeContext& c, size_t i, const char* op) {
  const ValueId kept = c.In(i).kept;
  for (const Node& node : c.builder().graph().nodes)
    if (kept != kNoValue && node.op == op &&
        std::find(node.outputs.begin(), node.outputs.end(), kept) != node.outputs.end())
      return node;
  return c.Fail("input " + std::to_string(i) + " does not come from a " + op);
}

// dY, mask -> dX. The mask stands for the index that our MaxPool keeps.
llvm::Error ImportMaxPoolGrad(NodeContext& c) {
  ACT_TRY(Node pool, MakerOfKept(c, 1, "MaxPool"));
  ACT_TRY(ValueId dy, c.Value(0));
  ACT_TRY(dy, c.ToChannelsLast(dy));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(pool), dy, {true}));
  return c.Return(c.ToChannelsFirst(grads[0]));
}

// dloss, log_prob, labels, weights? -> dlogits. log_prob stands for the probabilities that our loss
// keeps.
llvm::Error ImportCrossEntropyGrad(NodeContext& c) {
  ACT_TRY(Node loss, MakerOfKept(c, 1, "SoftmaxCrossEntropy"));
  ACT_TRY(const ValueId dloss, c.Value(0));
  ACT_TRY(const ValueId label, c.Value(2));
  if (label != loss.inputs[1]) return c.Fail("reads other labels than its loss");
  ACT_TRY(const Values grads, ApplyRule(c, std::move(loss), dloss, {true}));
  return c.Type(1).rank() > 2 ? c.Return(c.ToChannelsFirst(grads[0])) : c.Set(0, grads[0]);
}

// dY, mask, ratio, training_mode -> dX. Our mask is drawn again.
llvm::Error ImportDropoutGrad(NodeContext& c) {
  ACT_TRY(const ValueId dy, c.Value(0));
  if (c.Number(2) == 0 || c.Number(3) == 0) return c.Set(0, dy);
  ACT_TRY(Node dropout, MakerOfKept(c, 1, "Dropout"));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(dropout), dy, {true}));
  return c.Set(0, grads[0]);
}

// dY, Y -> dX, Y a softmax over `axis`. Ours is over the last one.
llvm::Error ImportSoftmaxGrad(NodeContext& c) {
  const size_t rank = c.DimsOf(1).size();
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", -1), rank));
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[axis], perm.back());
  Values in;
  for (size_t i = 0; i < 2; ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    ACT_TRY(const ValueId rows, axis + 1 < rank ? c.Transpose(value, perm) : llvm::Expected<ValueId>(value));
    in.push_back(rows);
  }
  ACT_TRY(const Values grads, ApplyRule(c, Forward("Softmax", {in[1]}, in[1], {}), in[0], {true}));
  return axis + 1 < rank ? c.Return(c.Transpose(grads[0], perm)) : c.Set(0, grads[0]);
}

// dY, X, scale, mean, 1 / deviation -> dX, dscale, dB: with g = dY scale and xhat the normalized X,
// dX = (g - mean(g) - xhat mean(g xhat)) / deviation over the axes from `axis` on.
llvm::Error ImportLayerNormalizationGrad(NodeContext& c) {
  const size_t rank = c.DimsOf(1).size();
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", -1), rank));
  Values in;
  for (size_t i = 0; i < 5; ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    in.push_back(value);
  }
  if (c.Type(0) != c.Type(1))
    return c.Fail("the gradient is " + ToString(c.Type(0)) + ", X is " + ToString(c.Type(1)));
  const ValueId dy = in[0], x = in[1], scale = in[2], mean = in[3], inverse = in[4];
  std::vector<int64_t> rows, columns;
  for (size_t i = 0; i < rank; ++i) (i < axis ? rows : columns).push_back(static_cast<int64_t>(i));
  std::vector<ValueId> saved;
  Node node = Forward("LayerNormalization", {}, x, {});
  node.name = c.name();
  GradContext g(c.builder(), node, {dy}, {}, saved);
  const ValueId xhat = g.Derive("Mul", {g.Derive("Sub", {g.Save(x), g.Save(mean)}), g.Save(inverse)});
  const auto mean_over = [&](ValueId v) { return g.Emit("ReduceMean", {v}, Over(columns, true)); };
  const ValueId scaled = g.Emit("Mul", {dy, scale});
  const ValueId shift = g.Emit("Sub", {scaled, mean_over(scaled)});
  const ValueId slope = g.Emit("Mul", {xhat, mean_over(g.Emit("Mul", {scaled, xhat}))});
  const ValueId dx = g.Emit("Mul", {g.Emit("Sub", {shift, slope}), inverse});
  const ValueId dscale = g.Emit("ReduceSum", {g.Emit("Mul", {dy, xhat})}, Over(rows, false));
  const ValueId db = g.Emit("ReduceSum", {dy}, Over(rows, false));
  ACT_CHECK_OK(g.TakeError());
  ACT_CHECK_OK(c.Set(0, dx));
  ACT_CHECK_OK(c.Set(1, dscale));
  return c.Set(2, db);
}

// shape of W, indices, dY -> dW
llvm::Error ImportGatherGrad(NodeContext& c) {
  ACT_TRY(const Dims dims, c.DimsFrom(0));
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), dims.size()));
  ACT_TRY(ValueId index, c.Value(1));
  ACT_TRY(ValueId dy, c.Value(2));
  Dims index_dims(dims.size(), Dim(1)), part = dims;
  index_dims[axis] = part[axis] = c.Type(1).Elements();
  ACT_TRY(index, c.Reshape(index, index_dims));
  ACT_TRY(dy, c.Reshape(dy, part));
  Attributes attrs;
  attrs.Set("axis", static_cast<int64_t>(axis));
  attrs.Set("reduction", std::string("add"));
  return c.Return(c.builder().AddTyped("Scatter", {dy, index}, {DType::kFloat32, dims}, attrs, c.name()));
}

}  // namespace

const std::vector<ImportEntry>& GradientImports() {
  static const std::vector<ImportEntry> entries = {
      {"ReluGrad", 2, 2, ImportReluGrad, kMicrosoft},
      {"SigmoidGrad", 2, 2, ImportSigmoidGrad, kMicrosoft},
      {"TanhGrad", 2, 2, ImportTanhGrad, kMicrosoft},
      {"GeluGrad", 2, 2, ImportGeluGrad, kMicrosoft},
      {"ConvGrad", 3, 3, ImportConvGrad, kMicrosoft},
      {"BatchNormalizationGrad", 5, 5, ImportBatchNormalizationGrad, kMicrosoft},
      {"MaxPoolGrad", 2, 2, ImportMaxPoolGrad},
      {"SoftmaxCrossEntropyLossGrad", 3, 4, ImportCrossEntropyGrad, kMicrosoft},
      {"DropoutGrad", 2, 4, ImportDropoutGrad, kMicrosoft},
      {"SoftmaxGrad_13", 2, 2, ImportSoftmaxGrad, kMicrosoft},
      {"GatherGrad", 3, 3, ImportGatherGrad, kMicrosoft},
      {"LayerNormalizationGrad", 5, 5, ImportLayerNormalizationGrad, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
