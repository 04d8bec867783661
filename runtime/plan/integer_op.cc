#include "runtime/plan/integer_op.h"

namespace act {

const std::vector<IntegerOp>& AllIntegerOps() {
  using C = IntegerOpcode;
  static const std::vector<IntegerOp> ops = {
      {"add", C::kAdd, 2},
      {"sub", C::kSub, 2},
      {"mul", C::kMul, 2},
      {"div", C::kDiv, 2},
      {"mod", C::kMod, 2},
      {"rem", C::kRem, 2},
      {"pow", C::kPow, 2},
      {"max", C::kMax, 2},
      {"min", C::kMin, 2},
      {"neg", C::kNeg, 1},
      {"abs", C::kAbs, 1},
      {"sign", C::kSign, 1},
      {"and", C::kAnd, 2},
      {"or", C::kOr, 2},
      {"xor", C::kXor, 2},
      {"not", C::kNot, 1},
      {"shift-left", C::kShiftLeft, 2},
      {"shift-right", C::kShiftRight, 2},
      {"equal", C::kEqual, 2, true},
      {"greater", C::kGreater, 2, true},
      {"less", C::kLess, 2, true},
      {"select", C::kSelect, 3},
      {"cast", C::kCast, 1},
      {"expand", C::kCast, 1, false, true},
  };
  return ops;
}

const IntegerOp* FindIntegerOp(const std::string& name) {
  for (const IntegerOp& op : AllIntegerOps())
    if (op.name == name) return &op;
  return nullptr;
}

const std::vector<IntegerReduction>& AllIntegerReductions() {
  static const std::vector<IntegerReduction> reductions = {
      {"add", IntegerOpcode::kAdd},
      {"mul", IntegerOpcode::kMul},
      {"max", IntegerOpcode::kMax, true},
      {"min", IntegerOpcode::kMin, true},
      {"mean", IntegerOpcode::kAdd, false, true},
  };
  return reductions;
}

const IntegerReduction* FindIntegerReduction(const std::string& name) {
  for (const IntegerReduction& reduction : AllIntegerReductions())
    if (reduction.name == name) return &reduction;
  return nullptr;
}

}  // namespace act
