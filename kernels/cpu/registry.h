// The CPU backend.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

// Every kernel of the CPU, fastest first, the reference kernels last.
void RegisterCpuKernels(KernelRegistry& registry);

}  // namespace act
