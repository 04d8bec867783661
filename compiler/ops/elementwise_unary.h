// A table row of an elementwise operator of one operand: the name, the function, and the derivative as a
// function of x or of y = f(x), whichever is cheaper; both are one expression.
#pragma once

#include <span>

#include "compiler/ops/expr_builder.h"
#include "compiler/ops/op_table.h"
#include "runtime/base/attributes.h"

namespace act {

enum class Of { kX, kY, kNone };  // what the derivative reads; kNone: there is none

// What the row says beside the two functions; OpDef has the words.
struct UnaryTraits {
  bool boolean_derivative = false;  // it is 0 or 1: stored in a bit
  bool linear_derivative = false;   // affine in what it reads (Square: 2x)
  bool sign_derivative = false;     // whether y > 0
  bool smooth = false;
  bool nonlinear = false;  // where a gradient rule derives the function itself
  bool rectifies = false;
  Arithmetic arithmetic = Arithmetic::kOther;
  Values values = Values::kNormal;
  bool in_onnx = true;                   // by the same name, with the same attributes
  void (*grad)(GradContext&) = nullptr;  // where it is no product with a derivative
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
