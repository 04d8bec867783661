#include "kernels/reference/registry.h"

#include <utility>

#include "kernels/reference/fused.h"
#include "kernels/reference/update_rows.h"

namespace act {

void RegisterReferenceKernels(KernelRegistry& registry) {
  KernelRegistry list;
  RegisterReferenceConv(list);
  RegisterReferenceMatMul(list);
  RegisterReferenceAttention(list);
  RegisterReferenceSoftmax(list);
  RegisterReferenceRecurrent(list);
  RegisterReferencePool(list);
  RegisterReferenceReduce(list);
  RegisterReferenceMovement(list);
  RegisterReferenceGather(list);
  RegisterReferenceSequences(list);
  RegisterReferenceInteger(list);
  RegisterReferenceRandom(list);
  RegisterReferenceResize(list);
  RegisterReferenceGridSample(list);
  RegisterReferenceRoiAlign(list);
  RegisterReferenceDeterminant(list);
  RegisterReferenceLoss(list);
  RegisterReferenceBatchNorm(list);
  RegisterReferenceStepScalar(list);
  RegisterReferenceQuantizedUpdates(list);
  RegisterReferenceUpdateRows(list);
  RegisterReferenceFusedKernel(list);
  for (const auto& [op, entries] : list.all())
    for (KernelEntry entry : entries) {
      entry.is_reference = true;
      registry.Add(op, std::move(entry));
    }
}

}  // namespace act
