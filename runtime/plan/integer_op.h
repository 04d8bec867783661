// What the operator `Integer` computes: exact arithmetic on integers, wrapping as two's complement does.
// (Fused loops compute in float32, where integers above 2^24 are rounded.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  kShiftLeft,   // by the width and more: 0
  kShiftRight,  // arithmetic for signed types
  kEqual,       // the result is bool
  kGreater,
  kLess,
  kSelect,  // a != 0 ? b : c
  kCast,    // to the result's type: the low bits
};

struct IntegerOp {
  const char* name;  // attribute `op`
  IntegerOpcode code;
  int operands;
  bool boolean = false;  // the result is bool; else of the operands' type
};
const std::vector<IntegerOp>& AllIntegerOps();
// Null where there is none of that name.
const IntegerOp* FindIntegerOp(const std::string& name);

}  // namespace act
