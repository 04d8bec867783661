// The CUDA backend's kernels.
#pragma once

#include "kernels/cuda/context.h"
#include "runtime/executor/kernel.h"

namespace act::cuda {

// Every kernel of the backend, fastest first; cuda.host last, for every operator of `host` (the
// processor's kernels). `context` and `host` must outlive the registry and its kernels.
void RegisterCudaKernels(KernelRegistry& registry, const CudaContext& context, const KernelRegistry& host);

// The parts of the list, one for each file. A file's device code is kernels/cuda/source/NAME.h.
void RegisterCudaFused(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaConv(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaDepthwise(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaMatMul(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaReduce(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaBatchNorm(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaSoftmax(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaLoss(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaStepScalar(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaPool(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaTranspose(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaMovement(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaGather(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaPositions(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaRandom(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaCumSum(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaTopK(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaInteger(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaResize(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaGridSample(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaGridGradient(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaAttention(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaQuantizedUpdates(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaRecurrent(KernelRegistry& registry, const CudaContext& context);
void RegisterCudaSwap(KernelRegistry& registry, const CudaContext& context);
// For operators that have no kernel of their own: copies operands to the host, runs one of `host` there,
// copies back.
void RegisterCudaHost(KernelRegistry& registry, const CudaContext& context, const KernelRegistry& host);

}  // namespace act::cuda
