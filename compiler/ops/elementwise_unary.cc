// Elementwise operators of one operand, as rows of the table that elementwise_unary.h describes.
#include <cmath>
#include <string>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/elementwise_unary.h"
#include "compiler/ops/expr_builder.h"
#include "compiler/ops/grad_context.h"
#include "compiler/ops/op_table.h"

namespace act {
namespace {

using B = ExprBuilder;

constexpr float kInvSqrt2 = 0.70710678118654752f;
constexpr float kInvSqrt2Pi = 0.39894228040143268f;
constexpr float kSqrt2OverPi = 0.79788456080286536f;
constexpr float kSeluAlpha = 1.6732632423543772f, kSeluScale = 1.0507009873554805f;

float Attr(const Attributes& a, const char* name, double fallback) {
  return static_cast<float>(a.Float(name, fallback));
}

Reg Softplus(B& b, Reg x) {  // max(x, 0) + ln(1 + e^-|x|): no overflow
  const Reg tail =
      b.Unary(Opcode::kLog, b.Add(b.Const(1), b.Unary(Opcode::kExp, b.Neg(b.Unary(Opcode::kAbs, x)))));
  return b.Add(b.Max(x, b.Const(0)), tail);
}

Reg Positive(B& b, Reg x) { return b.Greater(x, b.Const(0)); }

Reg GeluInner(B& b, Reg x) {  // sqrt(2/pi) (x + .044715 x^3)
  return b.Mul(x, b.Fma(b.Mul(x, x), b.Const(.044715f * kSqrt2OverPi), b.Const(kSqrt2OverPi)));
}

bool TanhGelu(const Attributes& a) { return a.String("approximate", "none") == "tanh"; }

Reg Gelu(B& b, const Attributes& a, Reg x) {
  const Reg phi = TanhGelu(a) ? b.Unary(Opcode::kTanh, GeluInner(b, x))
                              : b.Unary(Opcode::kErf, b.Mul(x, b.Const(kInvSqrt2)));
  const Reg half = b.Mul(b.Const(.5f), x);
  return b.Fma(half, phi, half);
}

Reg GeluDerivative(B& b, const Attributes& a, Reg x) {
  if (TanhGelu(a)) {
    const Reg t = b.Unary(Opcode::kTanh, GeluInner(b, x));
    const Reg slope = b.Fma(b.Mul(x, x), b.Const(3 * .044715f * kSqrt2OverPi), b.Const(kSqrt2OverPi));
    const Reg tail = b.Mul(b.Mul(b.Mul(b.Const(.5f), x), b.Sub(b.Const(1), b.Mul(t, t))), slope);
    return b.Add(b.Fma(t, b.Const(.5f), b.Const(.5f)), tail);
  }
  // cdf + x pdf, of the normal distribution
  const Reg z = b.Mul(x, b.Const(kInvSqrt2));
  const Reg cdf = b.Fma(b.Unary(Opcode::kErf, z), b.Const(.5f), b.Const(.5f));
  const Reg bell = b.Unary(Opcode::kExp, b.Sub(b.Const(0), b.Mul(z, z)));
  return b.Fma(b.Mul(x, b.Const(kInvSqrt2Pi)), bell, cdf);
}

Reg Clip(B& b, const Attributes& a, Reg x) {
  if (a.Has("min")) x = b.Max(x, b.Const(Attr(a, "min", 0)));
  if (a.Has("max")) x = b.Min(x, b.Const(Attr(a, "max", 0)));
  return x;
}

// 1 strictly between the bounds, as in PyTorch's hardtanh (ReLU6). At a bound itself
// no gradient passes.
Reg ClipMask(B& b, const Attributes& a, Reg y) {
  Reg inside = b.Const(1);
  if (a.Has("min")) inside = b.Mul(inside, b.Greater(y, b.Const(Attr(a, "min", 0))));
  if (a.Has("max")) inside = b.Mul(inside, b.Greater(b.Const(Attr(a, "max", 0)), y));
  return inside;
}

// Halves round to the even neighbour. Above 2^23 all floats are integers. Below,
// adding 2^23 rounds.
Reg Round(B& b, const Attributes&, Reg x) {
  const Reg t = b.Unary(Opcode::kAbs, x), shift = b.Const(8388608);
  const Reg near = b.Select(b.Greater(t, shift), t, b.Sub(b.Add(t, shift), shift));
  return b.Select(b.Greater(b.Const(0), x), b.Neg(near), near);
}

Reg Outside(B& b, const Attributes& a, Reg x) {
  return b.Greater(b.Unary(Opcode::kAbs, x), b.Const(Attr(a, "lambd", .5)));
}

Reg HardSigmoid(B& b, const Attributes& a, Reg x) {
  const Reg line = b.Fma(x, b.Const(Attr(a, "alpha", .2)), b.Const(Attr(a, "beta", .5)));
  return b.Min(b.Max(line, b.Const(0)), b.Const(1));
}

Reg EluLike(B& b, Reg x, float scale, float alpha) {
  const Reg negative =
      b.Mul(b.Const(scale * alpha), b.Sub(b.Unary(Opcode::kExp, b.Min(x, b.Const(0))), b.Const(1)));
  return b.Select(Positive(b, x), b.Mul(b.Const(scale), x), negative);
}

Reg EluLikeDerivative(B& b, Reg x, float scale, float alpha) {
  const Reg negative = b.Mul(b.Const(scale * alpha), b.Unary(Opcode::kExp, b.Min(x, b.Const(0))));
  return b.Select(Positive(b, x), b.Const(scale), negative);
}

void IdentityGrad(GradContext& g) { g.SetGrad(0, g.dout()); }
void NegGrad(GradContext& g) { g.SetGrad(0, g.Emit("Neg", {g.dout()})); }

void LeakyReluGrad(GradContext& g) {
  const float alpha = Attr(g.attrs(), "alpha", .01);
  // With a negative slope below 0 the result is positive on both sides.
  const ValueId mask = g.Derive("ReluDerivative", {g.Save(alpha < 0 ? g.in(0) : g.out())});
  const ValueId below = g.Emit("Mul", {g.dout(), g.Scalar(alpha)});
  g.SetGrad(0, g.Emit("Where", {mask, g.dout(), below}));
}

constexpr UnaryOp kUnaryOps[] = {
    {"Identity",
     [](B&, const Attributes&, Reg x) { return x; },
     Of::kNone,
     nullptr,
     {.arithmetic = Arithmetic::kCopy, .grad = IdentityGrad}},
    // Without a derivative: its gradient is zero.
    {"StopGradient", [](B&, const Attributes&, Reg x) { return x; }, Of::kNone, nullptr, {.in_onnx = false}},
    {"Neg",
     [](B& b, const Attributes&, Reg x) { return b.Neg(x); },
     Of::kNone,
     nullptr,
     {.arithmetic = Arithmetic::kNegative, .grad = NegGrad}},
    {"Floor", [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kFloor, x); }},
    {"Ceil", [](B& b, const Attributes&, Reg x) { return b.Neg(b.Unary(Opcode::kFloor, b.Neg(x))); }},
    {"Round", Round},
    {"Sign", [](B& b, const Attributes&, Reg x) { return b.Sub(Positive(b, x), b.Greater(b.Const(0), x)); }},
    {"Relu",
     [](B& b, const Attributes&, Reg x) { return b.Max(x, b.Const(0)); },
     Of::kY,
     [](B& b, const Attributes&, Reg y) { return Positive(b, y); },
     {.boolean_derivative = true, .sign_derivative = true, .rectifies = true, .values = Values::kRectified}},
    {"LeakyRelu",
     [](B& b, const Attributes& a, Reg x) {
       return b.Select(Positive(b, x), x, b.Mul(x, b.Const(Attr(a, "alpha", .01))));
     },
     Of::kNone,
     nullptr,
     {.grad = LeakyReluGrad}},
    {"Clip", Clip, Of::kY, ClipMask, {.boolean_derivative = true, .in_onnx = false}},
    {"Abs", [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kAbs, x); }, Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Sub(Positive(b, x), b.Greater(b.Const(0), x)); }},
    {"Sqrt",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kSqrt, x); },
     Of::kY,
     [](B& b, const Attributes&, Reg y) { return b.Div(b.Const(.5f), y); },
     {.slopes = Values::kUnbounded}},
    // The last step of a norm. The gradient of a norm is x / norm, and 0 where the norm is 0 (as in
    // PyTorch), though the root alone has an infinite slope there.
    {"SqrtOfSquares",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kSqrt, x); },
     Of::kY,
     [](B& b, const Attributes&, Reg y) {
       return b.Select(b.Op(Opcode::kEqual, y, b.Const(0)), b.Const(0), b.Div(b.Const(.5f), y));
     },
     {.slopes = Values::kUnbounded, .in_onnx = false}},
    {"Square",
     [](B& b, const Attributes&, Reg x) { return b.Mul(x, x); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Mul(b.Const(2), x); },
     {.linear_derivative = true, .in_onnx = false}},
    {"Reciprocal",
     [](B& b, const Attributes&, Reg x) { return b.Div(b.Const(1), x); },
     Of::kY,
     [](B& b, const Attributes&, Reg y) { return b.Neg(b.Mul(y, y)); },
     {.nonlinear = true, .values = Values::kUnbounded, .slopes = Values::kUnbounded}},
    {"Exp",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kExp, x); },
     Of::kY,
     [](B&, const Attributes&, Reg y) { return y; },
     {.linear_derivative = true}},
    {"Log",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kLog, x); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Div(b.Const(1), x); },
     {.slopes = Values::kUnbounded}},
    {"Sigmoid",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kSigmoid, x); },
     Of::kY,
     [](B& b, const Attributes&, Reg y) { return b.Mul(y, b.Sub(b.Const(1), y)); },
     {.smooth = true, .values = Values::kRectified}},
    {"Erf",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kErf, x); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {  // 2 / sqrt(pi) e^(-x^2)
       return b.Mul(b.Const(1.1283791670955126f), b.Unary(Opcode::kExp, b.Neg(b.Mul(x, x))));
     },
     {.smooth = true}},
    {"Softplus",
     [](B& b, const Attributes&, Reg x) { return Softplus(b, x); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kSigmoid, x); },
     {.smooth = true}},
    {"LogSigmoid",
     [](B& b, const Attributes&, Reg x) { return b.Neg(Softplus(b, b.Neg(x))); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kSigmoid, b.Neg(x)); },
     {.smooth = true, .in_onnx = false}},
    {"Elu", [](B& b, const Attributes& a, Reg x) { return EluLike(b, x, 1, Attr(a, "alpha", 1)); }, Of::kX,
     [](B& b, const Attributes& a, Reg x) { return EluLikeDerivative(b, x, 1, Attr(a, "alpha", 1)); }},
    {"Celu",  // max(0, x) + min(0, a (e^(x/a) - 1)), for a of either sign
     [](B& b, const Attributes& a, Reg x) {
       const float alpha = Attr(a, "alpha", 1);
       const Reg power = b.Unary(Opcode::kExp, b.Mul(b.Min(x, b.Const(0)), b.Const(1 / alpha)));
       return b.Select(Positive(b, x), x, b.Mul(b.Const(alpha), b.Sub(power, b.Const(1))));
     },
     Of::kX,
     [](B& b, const Attributes& a, Reg x) {
       return b.Unary(Opcode::kExp, b.Mul(b.Min(x, b.Const(0)), b.Const(1 / Attr(a, "alpha", 1))));
     }},
    {"ThresholdedRelu",
     [](B& b, const Attributes& a, Reg x) {
       return b.Select(b.Greater(x, b.Const(Attr(a, "alpha", 1))), x, b.Const(0));
     },
     Of::kX,
     [](B& b, const Attributes& a, Reg x) { return b.Greater(x, b.Const(Attr(a, "alpha", 1))); },
     {.boolean_derivative = true}},
    {"Shrink",  // x - bias above lambd, x + bias below -lambd, else 0
     [](B& b, const Attributes& a, Reg x) {
       const Reg bias = b.Const(Attr(a, "bias", 0));
       const Reg shrunk = b.Select(Positive(b, x), b.Sub(x, bias), b.Add(x, bias));
       return b.Select(Outside(b, a, x), shrunk, b.Const(0));
     },
     Of::kX,
     Outside,
     {.boolean_derivative = true}},
    {"Softsign",
     [](B& b, const Attributes&, Reg x) { return b.Div(x, b.Add(b.Const(1), b.Unary(Opcode::kAbs, x))); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {
       const Reg d = b.Add(b.Const(1), b.Unary(Opcode::kAbs, x));
       return b.Div(b.Const(1), b.Mul(d, d));
     }},
    {"Selu", [](B& b, const Attributes&, Reg x) { return EluLike(b, x, kSeluScale, kSeluAlpha); }, Of::kX,
     [](B& b, const Attributes&, Reg x) { return EluLikeDerivative(b, x, kSeluScale, kSeluAlpha); }},
    {"HardSigmoid",
     HardSigmoid,
     Of::kY,
     [](B& b, const Attributes& a, Reg y) {
       const Reg inside = b.Mul(Positive(b, y), b.Greater(b.Const(1), y));
       return b.Mul(inside, b.Const(Attr(a, "alpha", .2)));
     },
     {.flat = true}},
    {"HardSwish",
     [](B& b, const Attributes&, Reg x) {
       const Reg gate = b.Min(b.Max(b.Fma(x, b.Const(1.f / 6), b.Const(.5f)), b.Const(0)), b.Const(1));
       return b.Mul(x, gate);
     },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {  // 0 below -3, 1 above 3, x / 3 + 1 / 2 between
       const Reg line = b.Fma(x, b.Const(1.f / 3), b.Const(.5f));
       const Reg high = b.Select(b.Greater(x, b.Const(3)), b.Const(1), line);
       return b.Select(b.Greater(b.Const(-3), x), b.Const(0), high);
     },
     {.flat = true, .smooth = true, .values = Values::kRectified}},
    {"Silu",
     [](B& b, const Attributes&, Reg x) { return b.Mul(x, b.Unary(Opcode::kSigmoid, x)); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {  // s + x s (1 - s)
       const Reg s = b.Unary(Opcode::kSigmoid, x);
       return b.Fma(b.Mul(x, s), b.Sub(b.Const(1), s), s);
     },
     {.smooth = true, .values = Values::kRectified, .in_onnx = false}},
    {"Gelu", Gelu, Of::kX, GeluDerivative, {.smooth = true, .values = Values::kRectified}},
    {"Mish",
     [](B& b, const Attributes&, Reg x) { return b.Mul(x, b.Unary(Opcode::kTanh, Softplus(b, x))); },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {  // t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x))
       const Reg t = b.Unary(Opcode::kTanh, Softplus(b, x));
       const Reg slope = b.Mul(b.Sub(b.Const(1), b.Mul(t, t)), b.Unary(Opcode::kSigmoid, x));
       return b.Fma(x, slope, t);
     },
     {.smooth = true}},
};

const std::vector<UnaryOp>& Rows() {
  static const std::vector<UnaryOp> rows = [] {
    std::vector<UnaryOp> all(std::begin(kUnaryOps), std::end(kUnaryOps));
    all.insert(all.end(), TrigonometricOps().begin(), TrigonometricOps().end());
    return all;
  }();
  return rows;
}

const UnaryOp* FindUnary(const std::string& name) {
  for (const UnaryOp& op : Rows())
    if (name == op.name) return &op;
  return nullptr;
}

constexpr char kDerivative[] = "Derivative";

Reg Expr(B& b, const Node& node, const Regs& x) { return FindUnary(node.op)->f(b, node.attrs, x[0]); }

Reg DerivativeExpr(B& b, const Node& node, const Regs& x) {
  const std::string base = node.op.substr(0, node.op.size() - sizeof kDerivative + 1);
  return FindUnary(base)->derivative(b, node.attrs, x[0]);
}

void Grad(GradContext& g) {
  const UnaryOp* op = FindUnary(g.node().op);
  const ValueId read = op->of == Of::kX ? g.in(0) : g.out();
  const ValueId slope = g.Derive(g.node().op + kDerivative, {g.Save(read)}, g.attrs());
  const UnaryTraits& traits = op->traits;
  const bool masked = traits.flat || traits.boolean_derivative;
  g.SetGrad(0,
            masked ? g.Masked(g.dout(), slope, traits.boolean_derivative) : g.Emit("Mul", {g.dout(), slope}));
}

}  // namespace

void AddUnaryOps(std::vector<OpDef>& ops) {
  for (const UnaryOp& op : Rows()) {
    const UnaryTraits& traits = op.traits;
    ops.push_back({.name = op.name,
                   .infer = InferElementwise,
                   .grad = op.derivative ? Grad : traits.grad,
                   .expr = Expr,
                   .rectifies = traits.rectifies,
                   .values = traits.values,
                   .nonlinear = traits.nonlinear,
                   .steep_operand = traits.slopes == Values::kUnbounded ? 0 : -1,
                   .smooth = traits.smooth,
                   .arithmetic = traits.arithmetic,
                   .onnx = traits.in_onnx ? SameInOnnx : nullptr});
    if (!op.derivative) continue;
    OpDef derivative{.name = std::string(op.name) + kDerivative,
                     .infer = InferElementwise,
                     .expr = DerivativeExpr,
                     .boolean = traits.boolean_derivative,
                     .values = traits.slopes,
                     .nonlinear = !traits.linear_derivative,
                     .smooth = traits.smooth};
    if (traits.sign_derivative) derivative.needs = {Need::kSign};
    ops.push_back(std::move(derivative));
  }
}

}  // namespace act
