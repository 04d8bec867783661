// Elementwise operators of two or more operands, with numpy's broadcasting.
#include <cstring>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/error.h"

namespace act {
namespace {

using B = ExprBuilder;

llvm::Error InferResult(InferContext& c, DType dtype) {
  Dims dims;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.Has(i)) return c.Fail("an operand is left out");
    const std::optional<Dims> joint = Broadcast(dims, c.in(i).dims);
    if (!joint)
      return c.Fail("shapes do not broadcast: " + ToString(dims) + " and " + ToString(c.in(i).dims));
    dims = *joint;
  }
  c.outputs[0] = {dtype, dims};
  return llvm::Error::success();
}

llvm::Error InferCompare(InferContext& c) { return InferResult(c, DType::kBool); }

llvm::Error InferCast(InferContext& c) {
  return InferResult(c, static_cast<DType>(c.node.attrs.Int("to", static_cast<int64_t>(DType::kFloat32))));
}

// Where(condition, a, b): the condition may have any type; a and b are f32.
llvm::Error InferWhere(InferContext& c) {
  if (c.in(1).dtype != DType::kFloat32 || c.in(2).dtype != DType::kFloat32)
    return c.Fail("takes f32 operands after the condition, got " + ToString(c.in(1)) + " and " +
                  ToString(c.in(2)));
  return InferResult(c, DType::kFloat32);
}

void AddGrad(GradContext& g) {
  for (size_t i = 0; i < 2; ++i)
    if (g.Wants(i)) g.SetGrad(i, g.dout());
}

void SubGrad(GradContext& g) {
  if (g.Wants(0)) g.SetGrad(0, g.dout());
  if (g.Wants(1)) g.SetGrad(1, g.Emit("Neg", {g.dout()}));
}

void MulGrad(GradContext& g) {
  if (g.in(0) == g.in(1)) {  // x * x: one edge, not two
    const ValueId twice = g.Emit("Mul", {g.dout(), g.Scalar(2)});
    return g.SetGrad(0, g.Emit("Mul", {twice, g.Save(g.in(0))}));
  }
  for (size_t i = 0; i < 2; ++i)
    if (g.Wants(i)) g.SetGrad(i, g.Emit("Mul", {g.dout(), g.Save(g.in(1 - i))}));
}

// da = dy / b, db = -da y. Both are linear in what may be stored in a code, and a divisor that is smaller than the
// quotient, as the sum of a row, takes little room. Where the dividend is the smaller one, db = -da / b a.
void DivGrad(GradContext& g) {
  const ValueId inverse = g.Derive("Reciprocal", {g.Save(g.in(1))});
  const ValueId da = g.Emit("Mul", {g.dout(), inverse});
  if (g.Wants(0)) g.SetGrad(0, da);
  if (!g.Wants(1)) return;
  const bool repeats = g.type(g.in(0)).dims != g.type(g.out()).dims;
  const ValueId db = repeats ? g.Emit("Mul", {g.Emit("Mul", {da, inverse}), g.Save(g.in(0))})
                             : g.Emit("Mul", {da, g.Save(g.out())});
  g.SetGrad(1, g.Emit("Neg", {db}));
}

void PowGrad(GradContext& g) {
  if (g.Wants(0)) {
    const ValueId slope = g.Derive("PowDerivative", {g.Save(g.in(0)), g.Save(g.in(1))});
    g.SetGrad(0, g.Emit("Mul", {g.dout(), slope}));
  }
  if (g.Wants(1)) {
    const ValueId slope = g.Derive("PowExponentDerivative", {g.Save(g.in(0)), g.Save(g.in(1))});
    g.SetGrad(1, g.Emit("Mul", {g.dout(), slope}));
  }
}

// A power's slope b a^(b - 1) is bounded near 0 if the exponents are constants of at least 1.
bool IsBoundedPower(const Graph& graph, const Node& node) {
  const Value& exponent = graph.value(node.inputs[1]);
  if (exponent.kind != ValueKind::kConstant || exponent.type.dtype != DType::kFloat32 || !exponent.data.data)
    return false;
  for (int64_t at = 0; at + int64_t{sizeof(float)} <= exponent.data.bytes; at += sizeof(float)) {
    float number;
    std::memcpy(&number, exponent.data.data + at, sizeof number);
    if (!(number >= 1)) return false;
  }
  return true;
}

// Max and Min: the gradient goes to the winner. Equal operands share it, as in PyTorch's maximum.
void WinnerGrad(GradContext& g) {
  const bool max = g.node().op == "Max";
  for (size_t i = 0; i < 2; ++i) {
    if (!g.Wants(i)) continue;
    const ValueId a = g.Save(g.in(max ? i : 1 - i)), b = g.Save(g.in(max ? 1 - i : i));
    g.SetGrad(i, g.Masked(g.dout(), g.Derive("WinnerShare", {a, b}), false));
  }
}

void WhereGrad(GradContext& g) {
  const ValueId condition = g.Save(g.in(0));
  const ValueId zero = g.Scalar(0);
  if (g.Wants(1)) g.SetGrad(1, g.Emit("Where", {condition, g.dout(), zero}));
  if (g.Wants(2)) g.SetGrad(2, g.Emit("Where", {condition, zero, g.dout()}));
}

void CastGrad(GradContext& g) {
  Attributes attrs;
  attrs.Set("to", static_cast<int64_t>(g.type(g.in(0)).dtype));
  g.SetGrad(0, g.Emit("Cast", {g.dout()}, attrs));
}

// The keep mask is a function of (seed, step, stream, element). The backward pass recomputes it,
// and nothing is saved.
void DropoutGrad(GradContext& g) { g.SetGrad(0, g.Emit("Dropout", {g.dout()}, g.attrs())); }

}  // namespace

llvm::Error InferElementwise(InferContext& c) {
  ACT_CHECK_OK(c.CheckFloats());
  return InferResult(c, DType::kFloat32);
}

void AddBinaryOps(std::vector<OpDef>& ops) {
  const auto add = [&ops](OpDef def) {
    if (!def.infer) def.infer = InferElementwise;
    if (def.operands.most == 1) def.operands = {2, 2};
    ops.push_back(std::move(def));
  };
  add({.name = "Add",
       .grad = AddGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Add(r[0], r[1]); },
       .arithmetic = Arithmetic::kSum,
       .onnx = SameInOnnx});
  add({.name = "Sub",
       .grad = SubGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Sub(r[0], r[1]); },
       .arithmetic = Arithmetic::kDifference,
       .onnx = SameInOnnx});
  add({.name = "Mul",
       .grad = MulGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Mul(r[0], r[1]); },
       .arithmetic = Arithmetic::kProduct,
       .onnx = SameInOnnx});
  add({.name = "Div",
       .grad = DivGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Div(r[0], r[1]); },
       .steep_operand = 1,
       .onnx = SameInOnnx});
  add({.name = "Pow",
       .grad = PowGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Op(Opcode::kPow, r[0], r[1]); },
       .steep_operand = 0,
       .slope_is_bounded = IsBoundedPower,
       .onnx = SameInOnnx});
  add({.name = "PowDerivative",  // b a^(b - 1), and 0 where b is 0, also at a = 0
       .expr =
           [](B& b, const Node&, const Regs& r) {
             const Reg slope = b.Mul(r[1], b.Op(Opcode::kPow, r[0], b.Sub(r[1], b.Const(1))));
             return b.Select(b.Op(Opcode::kEqual, r[1], b.Const(0)), b.Const(0), slope);
           },
       .values = Values::kUnbounded,
       .nonlinear = true,
       .slope_is_bounded = IsBoundedPower});
  add({.name = "PowExponentDerivative",  // a^b ln a, and 0 where a is 0 and b is not negative
       .expr =
           [](B& b, const Node&, const Regs& r) {
             const Reg slope = b.Mul(b.Op(Opcode::kPow, r[0], r[1]), b.Unary(Opcode::kLog, r[0]));
             const Reg at_zero = b.Select(b.Greater(b.Const(0), r[1]), slope, b.Const(0));
             return b.Select(b.Op(Opcode::kEqual, r[0], b.Const(0)), at_zero, slope);
           },
       .values = Values::kUnbounded,
       .nonlinear = true});
  add({.name = "Max",
       .grad = WinnerGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Max(r[0], r[1]); },
       .onnx = SameInOnnx});
  add({.name = "Min",
       .grad = WinnerGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Min(r[0], r[1]); },
       .onnx = SameInOnnx});
  add({.name = "WinnerShare",  // a > b: 1, a == b: 1/2
       .expr =
           [](B& b, const Node&, const Regs& r) {
             return b.Fma(b.Op(Opcode::kEqual, r[0], r[1]), b.Const(.5f), b.Greater(r[0], r[1]));
           },
       .nonlinear = true});
  add({.name = "EqualShare",  // Equal as a number
       .expr = [](B& b, const Node&, const Regs& r) { return b.Op(Opcode::kEqual, r[0], r[1]); },
       .boolean = true,
       .nonlinear = true});
  add({.name = "Equal",
       .infer = InferCompare,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Op(Opcode::kEqual, r[0], r[1]); },
       .onnx = SameInOnnx});
  add({.name = "Greater",
       .infer = InferCompare,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Greater(r[0], r[1]); },
       .onnx = SameInOnnx});
  add({.name = "Less",
       .infer = InferCompare,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Greater(r[1], r[0]); },
       .onnx = SameInOnnx});
  add({.name = "Where",
       .operands = {3, 3},
       .infer = InferWhere,
       .grad = WhereGrad,
       .expr = [](B& b, const Node&, const Regs& r) { return b.Select(r[0], r[1], r[2]); },
       .onnx = SameInOnnx});
  ops.push_back({.name = "Cast",
                 .infer = InferCast,
                 .grad = CastGrad,
                 .expr = [](B&, const Node&, const Regs& r) { return r[0]; },
                 .converts = true});
  ops.push_back(
      {.name = "DivideByExtent",  // x / extent(N): the mean's 1 / n, which depends on the batch
       .infer = InferElementwise,
       .grad = [](GradContext& g) { g.SetGrad(0, g.Emit("DivideByExtent", {g.dout()}, g.attrs())); },
       .expr =
           [](B& b, const Node& n, const Regs& r) {
             const auto e = n.attrs.Ints("extent", {1, 0, 0});
             return b.Mul(r[0], b.Over(1, Dim(e[0], e[1], e[2])));
           },
       .squares = Squares::kDivided});
  ops.push_back({.name = "Dropout",
                 .infer = InferElementwise,
                 .grad = DropoutGrad,
                 .expr =
                     [](B& b, const Node& n, const Regs& r) {
                       return b.Op(Opcode::kDropout, r[0], {}, {},
                                   static_cast<float>(n.attrs.Float("probability")),
                                   static_cast<int32_t>(n.attrs.Int("stream")));
                     },
                 .random = true,
                 .movement = Movement::kDrop});
}

void AddElementwiseOps(std::vector<OpDef>& ops) {
  AddUnaryOps(ops);
  AddBinaryOps(ops);
}

}  // namespace act
