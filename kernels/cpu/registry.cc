#include "kernels/cpu/registry.h"

#include "kernels/cpu/conv.h"
#include "kernels/cpu/fused.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/special.h"
#include "kernels/reference/registry.h"

namespace act {

void RegisterCpuKernels(KernelRegistry& registry) {
  const auto context = std::make_shared<DnnlContext>();
  RegisterCpuDepthwise(registry);       // before oneDNN's, which is slower
  RegisterRoundedGradWeight(registry);  // faster, if the plan allows rounding
  RegisterDnnlConv(registry, context);
  RegisterCpuMatMul(registry);
  RegisterDnnlMatMul(registry, context);
  RegisterCpuRecurrent(registry, context);
  RegisterCpuMaxPool(registry);
  RegisterCpuAveragePool(registry);
  RegisterCpuReduce(registry);
  RegisterCpuTranspose(registry);
  RegisterCpuMovement(registry);
  RegisterCpuGather(registry);
  RegisterCpuSequences(registry);
  RegisterCpuResize(registry);
  RegisterCpuLoss(registry);
  RegisterCpuAttention(registry);
  RegisterCpuAttentionGrad(registry);
  RegisterCpuSoftmax(registry);
  RegisterCpuBatchNorm(registry);
  RegisterFusedKernels(registry);
  RegisterReferenceKernels(registry);
}

}  // namespace act
