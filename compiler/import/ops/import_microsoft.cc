// Operators of the domain com.microsoft that occur both in forward passes and in gradients.
#include "compiler/import/core/importer.h"

namespace act::onnx_import {
namespace {

llvm::Error ImportGelu(NodeContext& c) {
  Attributes attrs;
  attrs.Set("approximate", std::string("none"));
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit("Gelu", {x}, attrs));
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
      {"FusedMatMul", 2, 2, ImportFusedMatMul, kMicrosoft},
      {"Scale", 2, 2, ImportScale, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
