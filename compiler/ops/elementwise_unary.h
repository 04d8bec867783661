// A table row of an elementwise operator of one operand: the name, the function, and the derivative as a
// function of x or of y = f(x), whichever is cheaper; both are one expression.
#pragma once

#include <span>

#include "compiler/ops/expr_builder.h"
#include "runtime/base/attributes.h"

namespace act {

enum class Of { kX, kY, kNone };  // what the derivative reads; kNone: no gradient
enum class Result { kNumber, kBoolean };

struct UnaryOp {
  using Function = int (*)(ExprBuilder&, const Attributes&, int);

  const char* name;
  Function f;
  Of of;
  Function derivative;
  Result derivative_is = Result::kNumber;
  bool linear_derivative = false;  // affine in what it reads (Square: 2x)
};

// Circular and hyperbolic functions and their inverses.
std::span<const UnaryOp> TrigonometricOps();

}  // namespace act
