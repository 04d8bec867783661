// Circular and hyperbolic functions. Fused loops have sin, cos, exp and log. The others are
// composed of these so that no digits cancel near zeros.
#include "compiler/ops/elementwise_unary.h"

namespace act {
namespace {

using B = ExprBuilder;

constexpr float kPi = 3.14159265358979324f;

Reg Abs(B& b, Reg x) { return b.Unary(Opcode::kAbs, x); }
Reg Sqrt(B& b, Reg x) { return b.Unary(Opcode::kSqrt, x); }
Reg Square(B& b, Reg x) { return b.Mul(x, x); }
Reg Inverse(B& b, Reg x) { return b.Div(b.Const(1), x); }

// `magnitude` with the sign of x.
Reg WithSign(B& b, Reg x, Reg magnitude) {
  return b.Select(b.Greater(b.Const(0), x), b.Neg(magnitude), magnitude);
}

// ln(1 + u). The quotient u / ((1 + u) - 1) corrects the rounding error of 1 + u.
Reg Log1p(B& b, Reg u) {
  const Reg w = b.Add(b.Const(1), u);
  const Reg rounded = b.Sub(w, b.Const(1));
  const Reg exact = b.Op(Opcode::kEqual, rounded, u);  // infinity counts as exact
  const Reg corrected = b.Mul(b.Unary(Opcode::kLog, w), b.Select(exact, b.Const(1), b.Div(u, rounded)));
  return b.Select(b.Op(Opcode::kEqual, rounded, b.Const(0)), u, corrected);
}

// e^u - 1, corrected in the same way.
Reg Expm1(B& b, Reg u) {
  const Reg w = b.Unary(Opcode::kExp, u);
  const Reg rounded = b.Sub(w, b.Const(1));
  const Reg corrected = b.Mul(rounded, b.Div(u, b.Unary(Opcode::kLog, w)));
  return b.Select(b.Op(Opcode::kEqual, rounded, b.Const(0)), u, corrected);
}

// Reduces x to [0, tan(pi/8)] by atan t = pi/4 + atan((t - 1) / (t + 1)) = pi/2 - atan(1 / t).
// There it evaluates a polynomial in t^2 of our own fit, with an error of 1.5 ulp.
Reg Atan(B& b, Reg x) {
  const Reg t = Abs(b, x);
  const Reg far = b.Greater(t, b.Const(2.41421356f)), middle = b.Greater(t, b.Const(.414213562f));
  const Reg one = b.Const(1);
  const Reg near = b.Select(middle, b.Div(b.Sub(t, one), b.Add(t, one)), t);
  const Reg r = b.Select(far, b.Neg(b.Div(one, t)), near);
  const Reg base = b.Select(far, b.Const(kPi / 2), b.Select(middle, b.Const(kPi / 4), b.Const(0)));
  const Reg z = Square(b, r);
  Reg p = b.Const(.0852979124f);
  for (const float c : {-.140265495f, .199913934f, -.333332866f}) p = b.Fma(p, z, b.Const(c));
  return WithSign(b, x, b.Add(base, b.Fma(b.Mul(p, z), r, r)));
}

// sqrt(1 - x^2) without cancellation near 1.
Reg Leg(B& b, Reg x) { return Sqrt(b, b.Mul(b.Sub(b.Const(1), x), b.Add(b.Const(1), x))); }

// sinh |x|: (E + E / (E + 1)) / 2 with E = e^|x| - 1. Above 1, where nothing cancels, (e^|x| -
// e^-|x|) / 2 is computed from e^(|x| / 2), since e^|x| becomes infinite before its half does.
Reg SinhOfPositive(B& b, Reg t) {
  const Reg e = Expm1(b, t);
  const Reg low = b.Mul(b.Const(.5f), b.Add(e, b.Div(e, b.Add(e, b.Const(1)))));
  const Reg half = b.Unary(Opcode::kExp, b.Mul(b.Const(.5f), t));
  const Reg high =
      b.Sub(b.Mul(b.Mul(b.Const(.5f), half), half), b.Mul(b.Const(.5f), Inverse(b, Square(b, half))));
  return b.Select(b.Greater(t, b.Const(1)), high, low);
}

Reg Sinh(B& b, const Attributes&, Reg x) { return WithSign(b, x, SinhOfPositive(b, Abs(b, x))); }
Reg Cosh(B& b, const Attributes&, Reg x) {
  const Reg half = b.Unary(Opcode::kExp, b.Mul(b.Const(.5f), Abs(b, x)));
  return b.Add(b.Mul(b.Mul(b.Const(.5f), half), half), b.Mul(b.Const(.5f), Inverse(b, Square(b, half))));
}

constexpr UnaryOp kOps[] = {
    {"Sin", [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kSin, x); }, Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kCos, x); }},
    {"Cos", [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kCos, x); }, Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Neg(b.Unary(Opcode::kSin, x)); }},
    {"Tan",
     [](B& b, const Attributes&, Reg x) { return b.Div(b.Unary(Opcode::kSin, x), b.Unary(Opcode::kCos, x)); },
     Of::kY, [](B& b, const Attributes&, Reg y) { return b.Fma(y, y, b.Const(1)); }},
    {"Asin",
     [](B& b, const Attributes&, Reg x) {
       return b.Mul(b.Const(2), Atan(b, b.Div(x, b.Add(b.Const(1), Leg(b, x)))));
     },
     Of::kX,
     [](B& b, const Attributes&, Reg x) { return Inverse(b, Leg(b, x)); },
     {.slopes = Values::kUnbounded}},
    {"Acos",
     [](B& b, const Attributes&, Reg x) {
       return b.Mul(b.Const(2), Atan(b, Sqrt(b, b.Div(b.Sub(b.Const(1), x), b.Add(b.Const(1), x)))));
     },
     Of::kX,
     [](B& b, const Attributes&, Reg x) { return b.Neg(Inverse(b, Leg(b, x))); },
     {.slopes = Values::kUnbounded}},
    {"Atan", [](B& b, const Attributes&, Reg x) { return Atan(b, x); }, Of::kX,
     [](B& b, const Attributes&, Reg x) { return Inverse(b, b.Fma(x, x, b.Const(1))); }},
    {"Sinh", Sinh, Of::kX, Cosh},
    {"Cosh", Cosh, Of::kX, Sinh},
    {"Tanh",
     [](B& b, const Attributes&, Reg x) { return b.Unary(Opcode::kTanh, x); },
     Of::kY,
     [](B& b, const Attributes&, Reg y) { return b.Sub(b.Const(1), b.Mul(y, y)); },
     {.smooth = true}},
    {"Asinh",
     // ln(1 + t + t / (v + sqrt(1 + v^2))), t = |x|, v = 1 / t.
     [](B& b, const Attributes&, Reg x) {
       const Reg t = Abs(b, x), v = Inverse(b, t), root = Sqrt(b, b.Fma(v, v, b.Const(1)));
       return WithSign(b, x, Log1p(b, b.Add(t, b.Div(t, b.Add(v, root)))));
     },
     Of::kX, [](B& b, const Attributes&, Reg x) { return Inverse(b, Sqrt(b, b.Fma(x, x, b.Const(1)))); }},
    {"Acosh",
     [](B& b, const Attributes&, Reg x) {  // ln(1 + t + sqrt(2t + t^2)), t = x - 1
       const Reg t = b.Sub(x, b.Const(1));
       return Log1p(b, b.Add(t, b.Mul(Sqrt(b, t), Sqrt(b, b.Add(t, b.Const(2))))));
     },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {
       return Inverse(b, b.Mul(Sqrt(b, b.Sub(x, b.Const(1))), Sqrt(b, b.Add(x, b.Const(1)))));
     }},
    {"Atanh",
     [](B& b, const Attributes&, Reg x) {  // ln((1 + t) / (1 - t)) / 2, t = |x|
       const Reg t = Abs(b, x);
       const Reg u = b.Div(b.Mul(b.Const(2), t), b.Sub(b.Const(1), t));
       return WithSign(b, x, b.Mul(b.Const(.5f), Log1p(b, u)));
     },
     Of::kX,
     [](B& b, const Attributes&, Reg x) {
       return Inverse(b, b.Mul(b.Sub(b.Const(1), x), b.Add(b.Const(1), x)));
     }},
};

}  // namespace

std::span<const UnaryOp> TrigonometricOps() { return kOps; }

}  // namespace act
