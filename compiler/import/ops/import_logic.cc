// Comparisons and what follows from them: flags, logic, and the choice between two tensors. A flag is
// bool, 0 or 1.
#include <limits>

#include "compiler/import/ops/random_draw.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

llvm::Error ImportComparison(NodeContext& c) {
  ACT_TRY(const bool masks, MaskOfDraw(c));
  return masks ? llvm::Error::success() : c.Return(c.EmitBinary(c.node.op_type()));
}

llvm::Expected<ValueId> Not(const NodeContext& c, ValueId x) {
  return c.Emit("Equal", {x, c.builder().Scalar(0)});
}

llvm::Error ImportNot(NodeContext& c) {
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(Not(c, x));
}

// Flags are 0 or 1, so `and` is their product and `or` the larger one. Comparing the result stops
// gradients.
llvm::Expected<ValueId> Either(const NodeContext& c, const char* op, ValueId a, ValueId b) {
  ACT_TRY(const ValueId x, c.Cast(a, DType::kFloat32));
  ACT_TRY(const ValueId y, c.Cast(b, DType::kFloat32));
  ACT_TRY(const ValueId both, c.Emit(op, {x, y}));
  return c.Emit("Greater", {both, c.builder().Scalar(0)});
}

llvm::Error ImportLogical(NodeContext& c) {
  if (c.Type(0).dtype != DType::kBool || c.Type(1).dtype != DType::kBool)
    return c.Fail("takes bool operands, got " + ToString(c.Type(0)) + " and " + ToString(c.Type(1)));
  for (size_t i = 0; i < 2; ++i)  // `and true`, `or false`
    if (c.Number(i) == (c.node.op_type() == "And") && c.node.op_type() != "Xor" &&
        Broadcast(c.DimsOf(1 - i), c.DimsOf(i)) == c.DimsOf(1 - i))
      return c.Set(0, Operand(c.In(1 - i)));
  if (c.node.op_type() == "Xor") {
    ACT_TRY(const ValueId equal, c.EmitBinary("Equal"));
    return c.Return(Not(c, equal));
  }
  ACT_TRY(const ValueId a, c.BroadcastValue(0, c.DimsOf(1)));
  ACT_TRY(const ValueId b, c.BroadcastValue(1, c.DimsOf(0)));
  ACT_TRY(const ValueId y, Either(c, c.node.op_type() == "And" ? "Mul" : "Max", a, b));
  return c.Return(c.ExpandToInputs(y));
}

llvm::Error ImportIsNan(NodeContext& c) {  // NaN is what does not equal itself
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(const ValueId equal, c.Emit("Equal", {x, x}));
  return c.Return(Not(c, equal));
}

llvm::Error ImportIsInf(NodeContext& c) {
  const bool above = c.attrs.Int("detect_positive", 1) != 0, below = c.attrs.Int("detect_negative", 1) != 0;
  const float infinity = std::numeric_limits<float>::infinity();
  ACT_TRY(ValueId x, c.Value(0));
  if (above && below) {
    ACT_TRY(x, c.Emit("Abs", {x}));
  }
  if (!above && !below)  // nothing is above infinity
    return c.Return(c.Emit("Greater", {x, c.builder().Scalar(infinity)}));
  return c.Return(c.Emit("Equal", {x, c.builder().Scalar(above ? infinity : -infinity)}));
}

// a <= b is a < b or a == b, and not the negation of a > b: for NaN that gives true, and ONNX false.
llvm::Error ImportOrEqual(NodeContext& c) {
  ACT_TRY(const bool masks, MaskOfDraw(c));
  if (masks) return llvm::Error::success();
  ACT_TRY(const ValueId strict, c.EmitBinary(c.node.op_type() == "LessOrEqual" ? "Less" : "Greater"));
  ACT_TRY(const ValueId equal, c.EmitBinary("Equal"));
  return c.Return(Either(c, "Max", strict, equal));
}

llvm::Error ImportWhere(NodeContext& c) {
  if (c.Type(0).dtype != DType::kBool)
    return c.Fail("the condition must be bool, it is " + ToString(c.Type(0)));
  const Dims& dims = c.DimsOf(0);
  const auto with_b = Broadcast(dims, c.DimsOf(2)), with_a = Broadcast(dims, c.DimsOf(1)),
             branches = Broadcast(c.DimsOf(1), c.DimsOf(2));
  if (!with_a || !with_b || !branches) return c.Fail("shapes do not broadcast");
  ACT_TRY(const ValueId condition, c.BroadcastValue(0, *branches));
  ACT_TRY(const ValueId a, c.BroadcastValue(1, *with_b));
  ACT_TRY(const ValueId b, c.BroadcastValue(2, *with_a));
  ACT_TRY(const ValueId y, c.Emit("Where", {condition, a, b}));
  return c.Return(c.ExpandToInputs(y));
}

}  // namespace

const std::vector<ImportEntry>& LogicImports() {
  static const std::vector<ImportEntry> entries = {
      {"Equal", 2, 2, ImportComparison},
      {"Greater", 2, 2, ImportComparison},
      {"Less", 2, 2, ImportComparison},
      {"And", 2, 2, ImportLogical},
      {"Or", 2, 2, ImportLogical},
      {"Xor", 2, 2, ImportLogical},
      {"Not", 1, 1, ImportNot},
      {"LessOrEqual", 2, 2, ImportOrEqual},
      {"GreaterOrEqual", 2, 2, ImportOrEqual},
      {"IsNaN", 1, 1, ImportIsNan},
      {"IsInf", 1, 1, ImportIsInf},
      {"Where", 3, 3, ImportWhere},
  };
  return entries;
}

}  // namespace act::onnx_import
