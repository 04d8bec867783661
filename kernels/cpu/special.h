// The kernels of our own, one file for each family: parallel over rows, vectorised, the same bits on any
// number of threads.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

void RegisterCpuMaxPool(KernelRegistry& registry);
void RegisterCpuAveragePool(KernelRegistry& registry);
void RegisterCpuReduce(KernelRegistry& registry);
void RegisterCpuTranspose(KernelRegistry& registry);
void RegisterCpuMovement(KernelRegistry& registry);
void RegisterCpuResize(KernelRegistry& registry);
void RegisterCpuLoss(KernelRegistry& registry);
void RegisterCpuBatchNorm(KernelRegistry& registry);
void RegisterCpuSgd(KernelRegistry& registry);

}  // namespace act
