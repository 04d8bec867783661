#include "kernels/reference/registry.h"

#include "kernels/reference/fused.h"

namespace act {

void RegisterReferenceKernels(KernelRegistry& registry) {
  RegisterReferenceConv(registry);
  RegisterReferenceMatMul(registry);
  RegisterReferenceAttention(registry);
  RegisterReferenceSoftmax(registry);
  RegisterReferenceRecurrent(registry);
  RegisterReferencePool(registry);
  RegisterReferenceReduce(registry);
  RegisterReferenceMovement(registry);
  RegisterReferenceGather(registry);
  RegisterReferenceSequences(registry);
  RegisterReferenceInteger(registry);
  RegisterReferenceRandom(registry);
  RegisterReferenceResize(registry);
  RegisterReferenceGridSample(registry);
  RegisterReferenceLoss(registry);
  RegisterReferenceBatchNorm(registry);
  RegisterReferenceStepScalar(registry);
  RegisterReferenceFusedKernel(registry);
}

}  // namespace act
