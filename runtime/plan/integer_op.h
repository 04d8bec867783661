// What the operators `Integer` and `IntegerReduce` compute: exact arithmetic on integers, wrapping
// as two's complement does. (Fused loops compute in float32, where integers above 2^24 are
// rounded.)
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
  bool repeats = false;  // the operand broadcasts to the result's dims
};
const std::vector<IntegerOp>& AllIntegerOps();
// Null if there is no operator of that name.
const IntegerOp* FindIntegerOp(const std::string& name);

// How `IntegerReduce` combines the elements along its axes.
struct IntegerReduction {
  const char* name;  // attribute `op`
  IntegerOpcode code;
  bool of_flags = false;  // takes bool too
  bool divides = false;   // by the number of elements, toward zero
};
const std::vector<IntegerReduction>& AllIntegerReductions();
// Null if there is no reduction of that name.
const IntegerReduction* FindIntegerReduction(const std::string& name);

}  // namespace act
