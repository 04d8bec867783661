// Instructions of fused loops as C++ expressions.
#pragma once

#include <string>

#include "kernels/loops/loop_program.h"

namespace act::cuda {

// The bits of a number, which its decimal form may not have.
std::string Literal(float x);

// What an instruction makes of operands a, b and c: any but dropout and reductions of rows.
std::string Expression(const LoopInstr& x, const std::string& a, const std::string& b, const std::string& c);

}  // namespace act::cuda
