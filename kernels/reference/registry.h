// Reference kernels: plain loops in double precision. Tests compare against them, and they are the
// last choice at run time. They accept every site that makes sense and need no workspace.
#pragma once

#include "runtime/executor/kernel.h"

namespace act {

// Appends the reference kernel of every operator of docs/runtime_ops.md.
void RegisterReferenceKernels(KernelRegistry& registry);

// The parts of the list, one for each file.
void RegisterReferenceConv(KernelRegistry& registry);
void RegisterReferenceMatMul(KernelRegistry& registry);
void RegisterReferenceAttention(KernelRegistry& registry);
void RegisterReferenceSoftmax(KernelRegistry& registry);
void RegisterReferenceRecurrent(KernelRegistry& registry);
void RegisterReferencePool(KernelRegistry& registry);
void RegisterReferenceReduce(KernelRegistry& registry);
void RegisterReferenceMovement(KernelRegistry& registry);
void RegisterReferenceGather(KernelRegistry& registry);
void RegisterReferenceSequences(KernelRegistry& registry);
void RegisterReferenceInteger(KernelRegistry& registry);
void RegisterReferenceRandom(KernelRegistry& registry);
void RegisterReferenceResize(KernelRegistry& registry);
void RegisterReferenceGridSample(KernelRegistry& registry);
void RegisterReferenceRoiAlign(KernelRegistry& registry);
void RegisterReferenceDeterminant(KernelRegistry& registry);
void RegisterReferenceLoss(KernelRegistry& registry);
void RegisterReferenceBatchNorm(KernelRegistry& registry);
void RegisterReferenceStepScalar(KernelRegistry& registry);
void RegisterReferenceQuantizedUpdates(KernelRegistry& registry);

}  // namespace act
