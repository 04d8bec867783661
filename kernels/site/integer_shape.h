// What the kernels of the operators on integers share.
#pragma once

#include <string>

#include "runtime/executor/kernel.h"
#include "runtime/plan/integer_op.h"

namespace act {

// The first operand of those that have one type. What `select` asks first is a flag, of any integer type.
constexpr size_t FirstOfOneType(const IntegerOp& op) { return op.code == IntegerOpcode::kSelect ? 1 : 0; }

// The operation of an `Integer`. Null, and the reason in `why`, where its operands and its result do not fit.
const IntegerOp* IntegerOpOf(const KernelSite& site, std::string* why);

// That of an `IntegerReduce`, whose dims are another matter (reduce_shape.h).
const IntegerReduction* IntegerReductionOf(const KernelSite& site, std::string* why);

}  // namespace act
