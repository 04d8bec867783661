// A table row of an elementwise operator of one operand: the name, the function, and the
// derivative. The derivative is a function of x or of y = f(x), whichever is cheaper. Function and
// derivative are one expression each.
#pragma once

#include <span>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/attributes.h"

namespace act {

enum class Of { kX, kY, kNone };  // what the derivative reads; kNone: there is no derivative

// What else is true of the function and its derivative. OpDef explains the traits.
struct UnaryTraits {
  bool boolean_derivative = false;  // the derivative is 0 or 1: stored in one bit
  bool flat = false;                // the derivative is 0 over an interval
  bool linear_derivative = false;   // the derivative is affine in what it reads (Square: 2x)
  bool sign_derivative = false;     // the derivative says whether y > 0
  bool smooth = false;
  bool nonlinear = false;  // the function is not affine, and a gradient rule derives it
  bool rectifies = false;
  Arithmetic arithmetic = Arithmetic::kOther;
  Values values = Values::kNormal;
  Values slopes = Values::kSlope;        // of the derivative
  bool in_onnx = true;                   // ONNX has it by the same name, with the same attributes
  void (*grad)(GradContext&) = nullptr;  // for a gradient that is no product with a derivative
};

struct UnaryOp {
  using Function = Reg (*)(ExprBuilder&, const Attributes&, Reg);

  const char* name;
  Function f;
  Of of = Of::kNone;
  Function derivative = nullptr;
  UnaryTraits traits = {};
};

// Circular and hyperbolic functions and their inverses.
std::span<const UnaryOp> TrigonometricOps();

}  // namespace act
