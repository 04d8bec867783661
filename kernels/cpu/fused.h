// The fast kernel of fused loops; see docs/fused_loops.md.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

// Appends the vectorised kernel of `Fused`.
void RegisterFusedKernels(KernelRegistry& registry);

}  // namespace act
