#include "kernels/cuda/registry.h"

namespace act::cuda {

void RegisterCudaKernels(KernelRegistry& registry, const CudaContext& context, const KernelRegistry& host) {
  RegisterCudaSwap(registry, context);
  RegisterCudaHost(registry, context, host);
}

}  // namespace act::cuda
