// Elementwise operators. Most have the same name here. Known scalars stay scalars instead of
// becoming whole tensors, and operators that change nothing (x + 0, x * 1, a Cast between floats)
// add no node.
#include <utility>

#include "compiler/import/core/importer.h"
#include "compiler/import/known/onnx_types.h"
#include "compiler/import/ops/random_draw.h"
#include "compiler/ops/op_table.h"

namespace act::onnx_import {
namespace {

// Unary operators and their float attributes, whose names are the same here. Defaults are ONNX's.
struct Unary {
  const char* op;
  struct {
    const char* name;
    double fallback;
  } attrs[2] = {};
};
constexpr Unary kUnary[] = {
    {"Neg"},
    {"Abs"},
    {"Sqrt"},
    {"Exp"},
    {"Log"},
    {"Tanh"},
    {"Sigmoid"},
    {"Erf"},
    {"Relu"},
    {"Reciprocal"},
    {"Ceil"},
    {"Round"},
    {"Sign"},
    {"Sin"},
    {"Cos"},
    {"Tan"},
    {"Asin"},
    {"Acos"},
    {"Atan"},
    {"Sinh"},
    {"Cosh"},
    {"Asinh"},
    {"Acosh"},
    {"Atanh"},
    {"Softplus"},
    {"Softsign"},
    {"HardSwish"},
    {"Mish"},
    {"LeakyRelu", {{"alpha", .01}}},
    {"Elu", {{"alpha", 1}}},
    {"Celu", {{"alpha", 1}}},
    {"ThresholdedRelu", {{"alpha", 1}}},
    {"Shrink", {{"lambd", .5}, {"bias", 0}}},
    {"HardSigmoid", {{"alpha", .2}, {"beta", .5}}},
};

llvm::Error ImportUnary(NodeContext& c) {
  Attributes attrs;
  for (const Unary& unary : kUnary)
    if (c.node.op_type() == unary.op)
      for (const auto& attr : unary.attrs)
        if (attr.name) attrs.Set(attr.name, c.attrs.Float(attr.name, attr.fallback));
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit(c.node.op_type(), {x}, attrs));
}

llvm::Error ImportGelu(NodeContext& c) {
  Attributes attrs;
  attrs.Set("approximate", c.attrs.String("approximate", "none"));
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Emit("Gelu", {x}, attrs));
}

llvm::Error ImportSwish(NodeContext& c) {  // x sigmoid(alpha x)
  const double alpha = c.attrs.Float("alpha", 1);
  ACT_TRY(const ValueId x, c.Value(0));
  if (alpha == 1) return c.Return(c.Emit("Silu", {x}));
  ACT_TRY(const ValueId scaled, c.Emit("Mul", {x, c.builder().Scalar(static_cast<float>(alpha))}));
  ACT_TRY(const ValueId gate, c.Emit("Sigmoid", {scaled}));
  return c.Return(c.Emit("Mul", {x, gate}));
}

// Our Selu has the constants of the paper, which are also ONNX's defaults. With other constants it
// is a scaled Elu.
llvm::Error ImportSelu(NodeContext& c) {
  constexpr double kAlpha = 1.67326319217681884765625, kGamma = 1.05070102214813232421875;
  const double alpha = c.attrs.Float("alpha", kAlpha), gamma = c.attrs.Float("gamma", kGamma);
  ACT_TRY(const ValueId x, c.Value(0));
  if (static_cast<float>(alpha) == static_cast<float>(kAlpha) &&
      static_cast<float>(gamma) == static_cast<float>(kGamma))
    return c.Return(c.Emit("Selu", {x}));
  Attributes attrs;
  attrs.Set("alpha", alpha);
  ACT_TRY(const ValueId y, c.Emit("Elu", {x}, attrs));
  return c.Return(c.Emit("Mul", {y, c.builder().Scalar(static_cast<float>(gamma))}));
}

llvm::Error ImportBinary(NodeContext& c) {
  const std::string& op = c.node.op_type();
  // x + 0, x - 0, x * 1 and x / 1 are x, where the constant does not widen x.
  const double neutral = op == "Add" || op == "Sub" ? 0 : 1;
  const bool commutes = op == "Add" || op == "Mul";
  for (size_t i = 0; i < 2; ++i) {
    if (i == 0 && !commutes) continue;
    if (c.Number(i) == neutral && c.Type(i).dtype == c.Type(1 - i).dtype &&
        Broadcast(c.DimsOf(1 - i), c.DimsOf(i)) == c.DimsOf(1 - i))
      return c.Set(0, Operand(c.In(1 - i)));
  }
  ACT_TRY(const bool shifted, ShiftDraw(c));
  if (shifted) return llvm::Error::success();
  return c.Return(c.EmitBinary(op));
}

// The remainder has the sign of the dividend (fmod), or of the divisor.
llvm::Error ImportMod(NodeContext& c) {
  ACT_TRY(const ValueId quotient, c.EmitBinary("Div"));
  ValueId whole = kNoValue;
  if (c.attrs.Int("fmod") != 0) {
    ACT_TRY(const ValueId size, c.Emit("Abs", {quotient}));
    ACT_TRY(const ValueId floor, c.Emit("Floor", {size}));
    ACT_TRY(const ValueId sign, c.Emit("Sign", {quotient}));
    ACT_TRY(whole, c.Emit("Mul", {floor, sign}));
  } else {
    ACT_TRY(whole, c.Emit("Floor", {quotient}));
  }
  ACT_TRY(const ValueId a, c.BroadcastValue(0, c.DimsOf(1)));
  ACT_TRY(const ValueId b, c.BroadcastValue(1, c.DimsOf(0)));
  ACT_TRY(const ValueId multiple, c.Emit("Mul", {whole, b}));
  ACT_TRY(ValueId rest, c.Emit("Sub", {a, multiple}));
  // The quotient may have been rounded to the next whole number: then one divisor more, or less, is the remainder. (Not
  // where the product above rounds to the dividend, too.)
  ValueId step = b;
  if (c.attrs.Int("fmod") != 0) {
    ACT_TRY(const ValueId size, c.Emit("Abs", {b}));
    ACT_TRY(const ValueId sign, c.Emit("Sign", {a}));
    ACT_TRY(step, c.Emit("Mul", {size, sign}));
  }
  const ValueId zero = c.builder().Scalar(0);
  ACT_TRY(const ValueId direction, c.Emit("Sign", {step}));
  ACT_TRY(const ValueId along, c.Emit("Mul", {rest, direction}));
  ACT_TRY(const ValueId is_below, c.Emit("Greater", {zero, along}));
  ACT_TRY(const ValueId more, c.Emit("Add", {rest, step}));
  ACT_TRY(rest, c.Emit("Where", {is_below, more, rest}));
  ACT_TRY(const ValueId missing, c.Emit("Sub", {rest, step}));
  ACT_TRY(const ValueId over, c.Emit("Mul", {missing, direction}));
  ACT_TRY(const ValueId is_within, c.Emit("Greater", {zero, over}));
  return c.Return(c.Emit("Where", {is_within, rest, missing}));
}

// Sum, Mean, Max, Min of any number of operands.
llvm::Error ImportVariadic(NodeContext& c) {
  const bool mean = c.node.op_type() == "Mean";
  const std::string op = mean || c.node.op_type() == "Sum" ? "Add" : c.node.op_type();
  ACT_TRY(ValueId result, c.Value(0));
  for (size_t i = 1; i < c.inputs(); ++i) {
    ACT_TRY(const ValueId x, c.BroadcastValue(i, c.TypeOf(result).dims));
    ACT_TRY(result, c.Emit(op, {result, x}));
  }
  if (!mean) return c.Set(0, result);
  return c.Return(
      c.Emit("Mul", {result, c.builder().Scalar(static_cast<float>(1. / static_cast<double>(c.inputs())))}));
}

llvm::Error ImportPow(NodeContext& c) {
  const auto exponent = c.Number(1);
  if (exponent && Broadcast(c.DimsOf(0), c.DimsOf(1)) == c.DimsOf(0)) {
    ACT_TRY(const ValueId x, c.Value(0));
    if (*exponent == 1) return c.Set(0, x);
    if (*exponent == 2) return c.Return(c.Emit("Square", {x}));
    if (*exponent == .5) return c.Return(c.Emit("Sqrt", {x}));
    if (*exponent == -1) return c.Return(c.Emit("Reciprocal", {x}));
    return c.Return(c.Emit("Pow", {x, c.builder().Scalar(static_cast<float>(*exponent))}));
  }
  if (IsFloat(c.Type(1).dtype)) return c.Return(c.EmitBinary("Pow"));
  ACT_TRY(const ValueId x, c.BroadcastValue(0, c.DimsOf(1)));
  ACT_TRY(const ValueId integer, c.BroadcastValue(1, c.DimsOf(0)));
  ACT_TRY(const ValueId power, c.Cast(integer, DType::kFloat32));
  ACT_TRY(const ValueId y, c.Emit("Pow", {x, power}));
  return c.Return(c.ExpandToInputs(y));
}

llvm::Error ImportClip(NodeContext& c) {
  ACT_TRY(ValueId x, c.Value(0));
  Attributes attrs;
  for (size_t i : {size_t{1}, size_t{2}}) {
    const char* bound = i == 1 ? "min" : "max";
    if (const auto number = c.Number(i)) {
      attrs.Set(bound, *number);
    } else if (c.Has(i)) {  // a bound that is computed
      // A known min comes first: where it is above max, the result is max.
      if (!attrs.map().empty()) {
        ACT_TRY(x, c.Emit("Clip", {x}, std::exchange(attrs, {})));
      }
      ACT_TRY(const ValueId limit, c.Value(i));
      ACT_TRY(x, c.Emit(i == 1 ? "Max" : "Min", {x, limit}));
    } else if (c.attrs.Has(bound)) {  // before opset 11
      attrs.Set(bound, c.attrs.Float(bound));
    }
  }
  if (attrs.map().empty()) return c.Set(0, x);
  return c.Return(c.Emit("Clip", {x}, attrs));
}

llvm::Error ImportCastTo(NodeContext& c, DType to) {
  // Floats are computed in f32 whatever their width was.
  const DType target = IsFloat(to) ? DType::kFloat32 : to;
  if (c.Type(0).dtype == target) return c.Set(0, Operand(c.In(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  return c.Return(c.Cast(x, target));
}

llvm::Error ImportCast(NodeContext& c) {
  const auto to = FromOnnxType(c.attrs.Int("to"));
  if (!to)
    return c.Fail("casts to element type " + std::to_string(c.attrs.Int("to")) + ", which is not supported");
  return ImportCastTo(c, *to);
}

llvm::Error ImportCastLike(NodeContext& c) { return ImportCastTo(c, c.Type(1).dtype); }

llvm::Error ImportIdentity(NodeContext& c) { return c.Set(0, Operand(c.In(0))); }

// PyTorch's detach(). What has no value of the graph yet, or is no f32, has no gradient anyway.
llvm::Error ImportStopGradient(NodeContext& c) {
  if (c.In(0).value == kNoValue || c.Type(0).dtype != DType::kFloat32) return ImportIdentity(c);
  return c.Return(c.Emit("StopGradient", {c.In(0).value}));
}

// x where x > 0, else slope * x; the slope is a parameter.
llvm::Error ImportPRelu(NodeContext& c) {
  ACT_TRY(const ValueId x, c.Value(0));
  ACT_TRY(ValueId slope, c.Value(1));
  // Before opset 9, and from some exporters still, the slope is one number per channel, [C]. One that fits the last axis
  // belongs there from opset 9 on.
  Dims dims = c.DimsOf(1);
  if (dims.size() == 1 && c.Type(0).rank() > 2 && dims[0] == c.DimsOf(0)[1] &&
      (c.opset() < 9 || dims[0] != c.DimsOf(0).back())) {
    for (int64_t i = 2; i < c.Type(0).rank(); ++i) dims.push_back(1);
    ACT_TRY(slope, c.Reshape(slope, dims));
  }
  Attributes upper;
  upper.Set("max", 0.0);
  ACT_TRY(const ValueId positive, c.Emit("Relu", {x}));
  ACT_TRY(const ValueId negative, c.Emit("Clip", {x}, upper));
  ACT_TRY(const ValueId scaled, c.Emit("Mul", {negative, slope}));
  return c.Return(c.Emit("Add", {positive, scaled}));
}

}  // namespace

const std::vector<ImportEntry>& ElementwiseImports() {
  static const std::vector<ImportEntry> entries = [] {
    std::vector<ImportEntry> list = {
        {"Add", 2, 2, ImportBinary},
        {"Sub", 2, 2, ImportBinary},
        {"Mul", 2, 2, ImportBinary},
        {"Div", 2, 2, ImportBinary},
        {"Sum", 1, -1, ImportVariadic},
        {"Mean", 1, -1, ImportVariadic},
        {"Max", 1, -1, ImportVariadic},
        {"Min", 1, -1, ImportVariadic},
        {"Pow", 2, 2, ImportPow},
        {"Mod", 2, 2, ImportMod},
        {"Swish", 1, 1, ImportSwish},
        {"Clip", 1, 3, ImportClip},
        {"Cast", 1, 1, ImportCast},
        {"CastLike", 2, 2, ImportCastLike},
        {"Identity", 1, 1, ImportIdentity},
        {"Gelu", 1, 1, ImportGelu},
        {"Selu", 1, 1, ImportSelu},
        {"PRelu", 2, 2, ImportPRelu},
        {"StopGradient", 1, 1, ImportStopGradient, "act"},
    };
    for (const Unary& unary : kUnary) list.push_back({unary.op, 1, 1, ImportUnary});
    return list;
  }();
  return entries;
}

}  // namespace act::onnx_import
