#include "kernels/cpu/registry.h"

#include "kernels/cpu/conv.h"
#include "kernels/cpu/matmul.h"
#include "kernels/reference/registry.h"

namespace act {

void RegisterCpuKernels(KernelRegistry& registry) {
  const auto context = std::make_shared<DnnlContext>();
  RegisterDnnlConv(registry, context);
  RegisterDnnlMatMul(registry, context);
  RegisterReferenceKernels(registry);
}

}  // namespace act
