#include "kernels/cuda/registry.h"

namespace act::cuda {

void RegisterCudaKernels(KernelRegistry& registry, const CudaContext& context, const KernelRegistry& host) {
  RegisterCudaFused(registry, context);
  RegisterCudaDepthwise(registry, context);  // before the library's convolutions, which are slower there
  RegisterCudaConv(registry, context);
  RegisterCudaMatMul(registry, context);
  RegisterCudaReduce(registry, context);
  RegisterCudaBatchNorm(registry, context);
  RegisterCudaSoftmax(registry, context);
  RegisterCudaLoss(registry, context);
  RegisterCudaStepScalar(registry, context);
  RegisterCudaPool(registry, context);
  RegisterCudaTranspose(registry, context);
  RegisterCudaMovement(registry, context);
  RegisterCudaGather(registry, context);
  RegisterCudaPositions(registry, context);
  RegisterCudaRandom(registry, context);
  RegisterCudaCumSum(registry, context);
  RegisterCudaTopK(registry, context);
  RegisterCudaInteger(registry, context);
  RegisterCudaResize(registry, context);
  RegisterCudaGridSample(registry, context);
  RegisterCudaGridGradient(registry, context);
  RegisterCudaAttention(registry, context);
  RegisterCudaQuantizedUpdates(registry, context);
  RegisterCudaRecurrent(registry, context);
  RegisterCudaSwap(registry, context);
  RegisterCudaHost(registry, context, host);
}

}  // namespace act::cuda
