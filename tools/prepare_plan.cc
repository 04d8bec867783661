#include "tools/prepare_plan.h"

#include "kernels/cpu/registry.h"
#include "kernels/cuda/prepare.h"
#include "runtime/base/error.h"
#include "runtime/memory/layout.h"

namespace act {

llvm::Expected<std::shared_ptr<const Prepared>> PreparePlan(
    std::unique_ptr<cuda::Toolkit> card, const Plan& plan,
    const std::function<void(const std::string&)>& say) {
  KernelRegistry processor;
  RegisterCpuKernels(processor);
  ACT_TRY(const MemoryLayout layout, LayOut(plan, plan.default_batch, TargetKind::kCuda));
  return cuda::Prepare(std::move(card), plan, layout, processor,
                       {.folder = cuda::DefaultKernelFolder(), .say = say});
}

}  // namespace act
