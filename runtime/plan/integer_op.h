// What the operator `Integer` computes: exact arithmetic on integers, wrapping as two's complement
// does. (Fused loops compute in float32, where integers above 2^24 are rounded.)
#pragma once

#include <string>
#include <vector>

#include "kernels/math/integer_opcode.h"

namespace act {

struct IntegerOp {
  const char* name;  // attribute `op`
  IntegerOpcode code;
  int operands;
  bool boolean = false;  // the result is bool; otherwise it has the operands' type
};
const std::vector<IntegerOp>& AllIntegerOps();
// Null if there is no operator of that name.
const IntegerOp* FindIntegerOp(const std::string& name);

}  // namespace act
