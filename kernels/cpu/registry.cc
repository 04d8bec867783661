#include "kernels/cpu/registry.h"

#include "kernels/reference/registry.h"

namespace act {

void RegisterCpuKernels(KernelRegistry& registry) { RegisterReferenceKernels(registry); }

}  // namespace act
