// What the operator `Integer` computes for an element: exact arithmetic that wraps as two's
// complement does.
#pragma once

#include <cstdint>

namespace act {

enum class IntegerOpcode : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,  // toward zero; dividing by 0 is an error of the step
  kMod,  // remainder with the divisor's sign
  kRem,  // remainder with the dividend's sign
  kPow,  // a negative exponent gives the quotient toward zero
  kMax,
  kMin,
  kNeg,
  kAbs,
  kSign,
  kAnd,  // bitwise, as are the next three
  kOr,
  kXor,
  kNot,
  kShiftLeft,   // by the type's width or more: 0
  kShiftRight,  // arithmetic for signed types
  kEqual,       // the result is bool
  kGreater,
  kLess,
  kSelect,  // a != 0 ? b : c
  kCast,    // to the result's type: the low bits
};

}  // namespace act
