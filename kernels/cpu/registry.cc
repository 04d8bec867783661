#include "kernels/cpu/registry.h"

#include "kernels/cpu/conv.h"
#include "kernels/cpu/float_product.h"
#include "kernels/cpu/fused.h"
#include "kernels/cpu/instructions.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/special.h"
#include "kernels/cpu/update_rows.h"
#include "kernels/reference/registry.h"

namespace act {

void RegisterCpuKernels(KernelRegistry& registry) {
  LimitHighway();
  const auto context = std::make_shared<DnnlContext>();
  RegisterCpuDepthwise(registry);  // before oneDNN's, which is slower
  RegisterTileGradWeight(registry);
  if (MultipliesPairsFast()) RegisterRoundedGradWeight(registry);
  // Without AVX-512 they are faster than oneDNN's (docs/measurements/kernels.md).
  const bool floats_first = NarrowFloatProduct::Available();
  if (floats_first) RegisterFloatGradWeight(registry);
  RegisterDnnlConv(registry, context);
  if (!floats_first) RegisterFloatGradWeight(registry);
  const auto register_bfloat16 = [&] {
    RegisterDnnlBFloat16MatMul(registry, context);
    RegisterPiecedMatMul(registry, context);
    RegisterCodedMatMul(registry, context);
  };
  if (DnnlBFloat16IsFast()) register_bfloat16();
  RegisterCpuMatMul(registry);
  RegisterDnnlMatMul(registry, context);
  RegisterCpuFloat32MatMul(registry);
  if (!DnnlBFloat16IsFast()) register_bfloat16();
  if (!MultipliesPairsFast()) RegisterRoundedGradWeight(registry);
  RegisterCpuRecurrent(registry, context);
  RegisterCpuMaxPool(registry);
  RegisterCpuAveragePool(registry);
  RegisterCpuReduce(registry);
  RegisterCpuTranspose(registry);
  RegisterCpuMovement(registry);
  RegisterCpuGather(registry);
  RegisterCpuUpdateRows(registry);
  RegisterCpuQuantizedUpdates(registry);
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
