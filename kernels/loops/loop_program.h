// A program made ready for a loop of any backend: its instructions after peephole rewrites, and
// what each register is over the iteration space.
#pragma once

#include <vector>

#include "kernels/loops/operands.h"
#include "kernels/loops/peephole.h"
#include "runtime/plan/program.h"

namespace act {

// `operands` describes the program's inputs, in order.
LoopProgram MakeLoopProgram(const Program& program, const std::vector<LoopOperand>& operands);

// How often instructions and the program's results read each register.
std::vector<int32_t> CountReaders(const LoopProgram& optimized, const Program& program);

}  // namespace act
