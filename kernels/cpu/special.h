// Our own kernels, one file for each family. They are vectorized and parallel over rows, and their
// bits do not depend on the number of threads.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

// Loops that touch fewer elements run on one thread: waking the team would take longer.
inline constexpr int64_t kParallelElements = int64_t{1} << 15;

void RegisterCpuDepthwise(KernelRegistry& registry);
void RegisterFloatGradWeight(KernelRegistry& registry);
void RegisterRoundedGradWeight(KernelRegistry& registry);
// The same by AMX.
void RegisterTileGradWeight(KernelRegistry& registry);
// Of bfloat16 factors, and of those in float32 that oneDNN multiplies slowly; then all others.
void RegisterCpuMatMul(KernelRegistry& registry);
void RegisterCpuFloat32MatMul(KernelRegistry& registry);
void RegisterCpuMaxPool(KernelRegistry& registry);
void RegisterCpuAveragePool(KernelRegistry& registry);
void RegisterCpuReduce(KernelRegistry& registry);
void RegisterCpuTranspose(KernelRegistry& registry);
void RegisterCpuMovement(KernelRegistry& registry);
void RegisterCpuGather(KernelRegistry& registry);
void RegisterCpuSequences(KernelRegistry& registry);
void RegisterCpuResize(KernelRegistry& registry);
void RegisterCpuLoss(KernelRegistry& registry);
void RegisterCpuAttention(KernelRegistry& registry);
void RegisterCpuAttentionGrad(KernelRegistry& registry);
void RegisterCpuQuantizedUpdates(KernelRegistry& registry);
void RegisterCpuSoftmax(KernelRegistry& registry);
void RegisterCpuBatchNorm(KernelRegistry& registry);

}  // namespace act
