// Gradient operators of training graphs: elementwise, softmax, losses, dropout; and the table of all.
#include <numeric>

#include "compiler/import/training/gradient_rules.h"

namespace act::onnx_import {
namespace {

// The gradient of our operator `op` of one operand, whose derivative reads its operand or its
// result: `read` is both.
llvm::Error ReturnUnary(NodeContext& c, const char* op, ValueId read, Attributes attrs = {}) {
  ACT_TRY(const ValueId dy, c.Value(0));
  ACT_TRY(const Values grads, ApplyRule(c, Forward(op, {read}, read, std::move(attrs)), {dy}, {true}));
  return c.Set(0, grads[0]);
}

// dY, Y -> dX
llvm::Error ImportUnaryGrad(NodeContext& c) {
  const std::string& name = c.node.op_type();
  const std::string op = name.substr(0, name.size() - std::string("Grad").size());
  Attributes attrs;
  if (c.attrs.Has("alpha")) attrs.Set("alpha", c.attrs.Float("alpha"));  // LeakyRelu
  ACT_TRY(const ValueId y, c.Value(1));
  return ReturnUnary(c, op.c_str(), y, std::move(attrs));
}

// dY, X -> dX, and dY, X, bias -> dX, which is the gradient at X + bias
llvm::Error ImportGeluGrad(NodeContext& c) {
  const bool fast = c.node.op_type().find("Fast") != std::string::npos;
  Attributes attrs;
  attrs.Set("approximate", std::string(fast ? "tanh" : "none"));
  ACT_TRY(ValueId x, c.Value(1));
  if (c.Has(2)) {
    ACT_TRY(const ValueId bias, c.Value(2));
    ACT_TRY(x, c.Emit("Add", {x, bias}));
  }
  return ReturnUnary(c, "Gelu", x, std::move(attrs));
}

// dY, X -> dX of x sigmoid(a x) = silu(a x) / a, whose derivative is that of silu at a x
llvm::Error ImportQuickGeluGrad(NodeContext& c) {
  const auto alpha = static_cast<float>(c.attrs.Float("alpha", 1.702));
  ACT_TRY(const ValueId x, c.Value(1));
  ACT_TRY(const ValueId scaled, c.Emit("Mul", {x, c.builder().Scalar(alpha)}));
  return ReturnUnary(c, "Silu", scaled);
}

// dY, A, B -> dA, dB of A / B. The gradient reads the quotient, which is that of the forward pass once equal nodes are
// merged.
llvm::Error ImportDivGrad(NodeContext& c) {
  Values in;
  for (size_t i = 0; i < 3; ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    in.push_back(value);
  }
  const std::vector<bool> wanted{c.WantsOutput(0), c.WantsOutput(1)};
  ACT_TRY(const ValueId quotient, c.Emit("Div", {in[1], in[2]}));
  ACT_TRY(const Values grads, ApplyRule(c, Forward("Div", {in[1], in[2]}, quotient), {in[0]}, wanted));
  for (size_t i = 0; i < 2; ++i)
    if (wanted[i]) ACT_CHECK_OK(c.Set(i, grads[i]));
  return llvm::Error::success();
}

// The gradient of a loss that is not reduced, so not fused: dlogits = (p - hit) w dloss with
// p = exp(log_prob), hit 1 at the label, and w the weight of the label.
llvm::Error GradientOfEachLoss(NodeContext& c) {
  const Dims& scores = c.DimsOf(1);
  if (scores.size() < 2 || !scores[1].IsFixed() || scores[1].fixed > kMaxKnownElements)
    return c.Fail("scores must be [N, C, ...], they are " + ToString(c.Type(1)));
  Dims one_class = scores, classes(scores.size() - 1, Dim(1));
  one_class[1] = 1;
  classes[0] = scores[1];
  Known positions{{DType::kFloat32, classes}, {}};
  for (int64_t i = 0; i < scores[1].fixed; ++i)
    positions.elements.push_back(RealElement(DType::kFloat32, static_cast<double>(i)));
  const auto number = [&](float value) { return c.builder().Scalar(value); };
  ACT_TRY(const ValueId log_prob, c.Value(1));
  ACT_TRY(ValueId label, c.Value(2));
  ACT_TRY(label, c.Cast(label, DType::kFloat32));
  ACT_TRY(label, c.Reshape(label, one_class));
  ACT_TRY(const ValueId position, c.importer.Materialize(KnownOperand(std::move(positions))));
  ACT_TRY(const ValueId is_label, c.Emit("Equal", {position, label}));
  ACT_TRY(const ValueId hit, c.Emit("Where", {is_label, number(1), number(0)}));
  ACT_TRY(ValueId share, c.Value(0));
  ACT_TRY(share, c.Reshape(share, one_class));
  if (c.Has(3)) {
    ACT_TRY(ValueId weight, c.Value(3));
    ACT_TRY(weight, c.Reshape(weight, classes));
    ACT_TRY(weight, c.Emit("Mul", {hit, weight}));
    ACT_TRY(weight, c.Emit("ReduceSum", {weight}, Over({1}, true)));
    ACT_TRY(share, c.Emit("Mul", {share, weight}));
  }
  if (c.attrs.Has("ignore_index")) {
    const ValueId ignore = number(static_cast<float>(c.attrs.Int("ignore_index")));
    ACT_TRY(const ValueId ignored, c.Emit("Equal", {label, ignore}));
    ACT_TRY(share, c.Emit("Where", {ignored, number(0), share}));
  }
  ACT_TRY(const ValueId probability, c.Emit("Exp", {log_prob}));
  ACT_TRY(const ValueId slope, c.Emit("Sub", {probability, hit}));
  return c.Return(c.Emit("Mul", {slope, share}));
}

// dloss, log_prob, labels, weights? -> dlogits. log_prob stands for the probabilities that our loss
// keeps.
llvm::Error ImportCrossEntropyGrad(NodeContext& c) {
  if (c.attrs.String("reduction", "mean") == "none") return GradientOfEachLoss(c);
  ACT_TRY(Node loss, MakerOfKept(c, 1, "SoftmaxCrossEntropy"));
  ACT_TRY(const ValueId dloss, c.Value(0));
  ACT_TRY(const ValueId label, c.Value(2));
  if (label != loss.inputs[1]) return c.Fail("reads other labels than its loss");
  ACT_TRY(const Values grads, ApplyRule(c, std::move(loss), {dloss}, {true}));
  return c.Type(1).rank() > 2 ? c.Return(c.ToChannelsFirst(grads[0])) : c.Set(0, grads[0]);
}

// dY, mask, ratio, training_mode -> dX. Our mask is drawn again.
llvm::Error ImportDropoutGrad(NodeContext& c) {
  ACT_TRY(const ValueId dy, c.Value(0));
  if (c.Number(2) == 0 || c.Number(3) == 0) return c.Set(0, dy);
  ACT_TRY(Node dropout, MakerOfKept(c, 1, "Dropout"));
  ACT_TRY(const Values grads, ApplyRule(c, std::move(dropout), {dy}, {true}));
  return c.Set(0, grads[0]);
}

// dY, Y -> dX, Y a softmax or its logarithm over `axis`; before opset 13 over all axes from `axis`
// on. Ours is over the last one.
llvm::Error ImportSoftmaxGrad(NodeContext& c) {
  const std::string& name = c.node.op_type();
  const bool old = !name.ends_with("_13");
  const Dims dims = c.DimsOf(1);
  const size_t rank = dims.size();
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis", old ? 1 : -1), rank));
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[axis], perm.back());
  Dims flat(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
  Dim count(1);
  for (size_t i = axis; i < rank; ++i) count = count * dims[i];
  flat.push_back(count);
  const auto rows = [&](ValueId value, bool back) -> llvm::Expected<ValueId> {
    if (old) return c.Reshape(value, back ? dims : flat);
    return axis + 1 < rank ? c.Transpose(value, perm) : llvm::Expected<ValueId>(value);
  };
  Values in;
  for (size_t i = 0; i < 2; ++i) {
    ACT_TRY(const ValueId value, c.Value(i));
    ACT_TRY(const ValueId row, rows(value, false));
    in.push_back(row);
  }
  const char* op = name.starts_with("Log") ? "LogSoftmax" : "Softmax";
  ACT_TRY(const Values grads, ApplyRule(c, Forward(op, {in[1]}, in[1]), {in[0]}, {true}));
  return c.Return(rows(grads[0], true));
}

// Operators of ONNX Runtime's registry of gradients that cannot be part of a plan.
struct Refused {
  const char* op;
  const char* why;
};
constexpr Refused kRefused[] = {
    {"PythonOp", "it runs Python code"},
    {"PythonOpGrad", "it runs Python code"},
    {"YieldOp", "it hands control back to PyTorch (a graph of ORTModule)"},
    {"ATen", "it calls PyTorch (a graph of ORTModule)"},
    {"Send", "it sends tensors to another process"},
    {"Recv", "it receives tensors from another process"},
    {"NcclAllReduce", "it reduces over several processes"},
    {"FakeQuant", "it simulates quantization"},
    {"FakeQuantGrad", "it simulates quantization"},
    {"MatMulBnb4", "it reads quantized weights"},
    {"PadAndUnflatten", "its result's shape depends on data (a graph of ORTModule)"},
    {"FlattenAndUnpad", "its result's shape depends on data (a graph of ORTModule)"},
    {"ShrunkenGather", "its result's shape depends on data (a graph of ORTModule)"},
    {"InvertibleLayerNormalizationGrad", "it recomputes its operand (a graph of ORTModule)"},
};

llvm::Error ImportRefused(NodeContext& c) {
  for (const Refused& refused : kRefused)
    if (c.node.op_type() == refused.op)
      return c.Fail(std::string("is not supported: ") + refused.why,
                    "compile the forward model with --loss=KIND: actc derives its gradients");
  return c.Fail("is not supported");
}

}  // namespace

const std::vector<ImportEntry>& GradientImports() {
  static const std::vector<ImportEntry> entries = [] {
    std::vector<ImportEntry> list = {
        {"ReluGrad", 2, 2, ImportUnaryGrad, kMicrosoft},
        {"SigmoidGrad", 2, 2, ImportUnaryGrad, kMicrosoft},
        {"TanhGrad", 2, 2, ImportUnaryGrad, kMicrosoft},
        {"LeakyReluGrad", 2, 2, ImportUnaryGrad, kMicrosoft},
        {"GeluGrad", 2, 2, ImportGeluGrad, kMicrosoft},
        {"FastGeluGrad", 2, 2, ImportGeluGrad, kMicrosoft},
        {"BiasGeluGrad_dX", 3, 3, ImportGeluGrad, kMicrosoft},
        {"BiasFastGeluGrad_dX", 3, 3, ImportGeluGrad, kMicrosoft},
        {"QuickGeluGrad", 2, 2, ImportQuickGeluGrad, kMicrosoft},
        {"DivGrad", 3, 3, ImportDivGrad, kMicrosoft},
        {"SoftmaxCrossEntropyLossGrad", 3, 4, ImportCrossEntropyGrad, kMicrosoft},
        {"DropoutGrad", 2, 4, ImportDropoutGrad, kMicrosoft},
        {"SoftmaxGrad", 2, 2, ImportSoftmaxGrad, kMicrosoft},
        {"SoftmaxGrad_13", 2, 2, ImportSoftmaxGrad, kMicrosoft},
        {"LogSoftmaxGrad", 2, 2, ImportSoftmaxGrad, kMicrosoft},
        {"LogSoftmaxGrad_13", 2, 2, ImportSoftmaxGrad, kMicrosoft},
    };
    for (const auto* family : {&LayerGradients(), &MovementGradients(), &RecurrentGradients()})
      list.insert(list.end(), family->begin(), family->end());
    for (const Refused& refused : kRefused) list.push_back({refused.op, 0, -1, ImportRefused, kMicrosoft});
    return list;
  }();
  return entries;
}

}  // namespace act::onnx_import
