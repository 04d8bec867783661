// Operators of the domain com.microsoft that occur both in forward passes and in gradients.
#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

// x, bias?; Fast: the form with tanh
llvm::Error ImportGelu(NodeContext& c) {
  Attributes attrs;
  attrs.Set("approximate", std::string(c.node.op_type() == "FastGelu" ? "tanh" : "none"));
  ACT_TRY(ValueId x, c.Value(0));
  if (c.Has(1)) {
    ACT_TRY(const ValueId bias, c.Value(1));
    ACT_TRY(x, c.Emit("Add", {x, bias}));
  }
  return c.Return(c.Emit("Gelu", {x}, attrs));
}

llvm::Error ImportQuickGelu(NodeContext& c) {  // x sigmoid(alpha x)
  const auto alpha = static_cast<float>(c.attrs.Float("alpha", 1.702));
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId scaled, c.Emit("Mul", {x, c.builder().Scalar(alpha)}));
  ACT_TRY(const ValueId gate, c.Emit("Sigmoid", {scaled}));
  return c.Return(c.Emit("Mul", {x, gate}));
}

llvm::Expected<ValueId> Scaled(NodeContext& c, ValueId x, size_t i) {  // x scale_i
  const double scale = c.attrs.Float("scale_" + std::to_string(i), 1);
  return c.Emit("Mul", {x, c.builder().Scalar(static_cast<float>(scale))});
}

// A scale_0 + B scale_1 (+ C scale_2)
llvm::Error ImportScaledSum(NodeContext& c) {
  ValueId sum = kNoValue;
  for (size_t i = 0; i < c.inputs(); ++i) {
    ACT_TRY(const ValueId x, c.Value(i));
    ACT_TRY(const ValueId term, Scaled(c, x, i));
    if (i == 0) {
      sum = term;
      continue;
    }
    ACT_TRY(sum, c.Emit("Add", {sum, term}));
  }
  return c.Set(0, sum);
}

// dY -> dY scale_0, dY scale_1 (, dY scale_2): the gradients of ScaledSum
llvm::Error ImportBatchScale(NodeContext& c) {
  ACT_TRY(const ValueId dy, c.Value(0));
  for (size_t i = 0; i < c.outputs(); ++i) {
    ACT_TRY(const ValueId scaled, Scaled(c, dy, i));
    if (c.WantsOutput(i)) ACT_CHECK_OK(c.Set(i, scaled));
  }
  return llvm::Error::success();
}

// alpha A' B', with the last two axes of an operand swapped where its flag says so.
llvm::Error ImportFusedMatMul(NodeContext& c) {
  if (c.attrs.Int("transBatchA") != 0 || c.attrs.Int("transBatchB") != 0)
    return c.Fail("transBatchA and transBatchB are not supported");
  ACT_TRY(const ValueId a, c.Value(0));
  ACT_TRY(const ValueId b, c.Value(1));
  Attributes attrs;
  attrs.Set("trans_a", c.attrs.Int("transA"));
  attrs.Set("trans_b", c.attrs.Int("transB"));
  ACT_TRY(const ValueId y, c.Emit("MatMul", {a, b}, attrs));
  const double alpha = c.attrs.Float("alpha", 1);
  if (alpha == 1) return c.Set(0, y);
  return c.Return(c.Emit("Mul", {y, c.builder().Scalar(static_cast<float>(alpha))}));
}

// x / s with scale_down, else x s; s is a number, or a count of elements that may depend on the
// batch.
llvm::Error ImportScale(NodeContext& c) {
  const bool down = c.attrs.Int("scale_down") != 0;
  ACT_TRY(const ValueId x, c.Value(0));
  if (const auto number = c.Number(1))
    return c.Return(c.Emit(down ? "Div" : "Mul", {x, c.builder().Scalar(static_cast<float>(*number))}));
  if (!down || !c.In(1).known || IsFloat(c.Type(1).dtype) || !c.In(1).known->IsSplat())
    return c.Fail("the scale must be known when compiling");
  const Dim count = c.In(1).known->elements[0].integer;
  Attributes attrs;
  attrs.Set("extent", std::vector<int64_t>{count.fixed, count.per_batch, count.per_batch2});
  return c.Return(c.Emit("DivideByExtent", {x}, attrs));
}

}  // namespace

const std::vector<ImportEntry>& MicrosoftImports() {
  static const std::vector<ImportEntry> entries = {
      {"Gelu", 1, 1, ImportGelu, kMicrosoft},
      {"FastGelu", 1, 2, ImportGelu, kMicrosoft},
      {"BiasGelu", 2, 2, ImportGelu, kMicrosoft},
      {"QuickGelu", 1, 1, ImportQuickGelu, kMicrosoft},
      {"ScaledSum", 2, 3, ImportScaledSum, kMicrosoft},
      {"BatchScale", 1, 1, ImportBatchScale, kMicrosoft},
      {"FusedMatMul", 2, 2, ImportFusedMatMul, kMicrosoft},
      {"Scale", 2, 2, ImportScale, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
