// What a register of a loop is over the iteration space: where its value can be computed once, and where
// once per row.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/program.h"

namespace act {

// How a register varies over the space. A scalar or a column is computed once, a row value once per
// row.
enum class Varies : uint8_t { kNever, kByRow, kByElement };

struct RegisterForm {
  Varies varies = Varies::kNever;
  int64_t period = 0;  // kNever: element i reads number i % period; 1: a scalar, else a column
  bool operator==(const RegisterForm&) const = default;
};

// The form of what an instruction makes, from the forms of its operands (-1: none). A row's value
// and a column's value together make an element's.
RegisterForm FormOf(Opcode op, int32_t a, int32_t b, int32_t c, const std::vector<RegisterForm>& forms);

}  // namespace act
