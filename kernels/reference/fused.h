// The reference kernel of fused loops.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

// Appends the reference kernel of `Fused`. It runs the program one register at a time over the
// whole iteration space. Each instruction is computed in double precision and rounded to float32
// once. It allocates while it runs.
void RegisterReferenceFusedKernel(KernelRegistry& registry);

// One instruction on one element, in double precision. Any opcode but kDropout.
double Evaluate(Opcode op, double a, double b, double c);

}  // namespace act
