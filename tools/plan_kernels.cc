#include "tools/plan_kernels.h"

#include "kernels/cpu/registry.h"
#include "kernels/cuda/host_work.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/toolkit.h"
#include "runtime/base/error.h"
#include "runtime/executor/bound_graph.h"
#include "runtime/executor/machine.h"
#include "runtime/executor/profile.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

llvm::Expected<std::string> Describe(const Plan& plan, int64_t batch, TargetKind target,
                                     const KernelRegistry& kernels) {
  ACT_TRY(const MemoryLayout layout, LayOut(plan, batch, target));
  ACT_TRY(const std::vector<BoundNode> nodes,
          ChooseKernels(plan.train, layout.train, batch, kernels, PhysicalCores()));
  return FormatDispatch(nodes);
}

}  // namespace

llvm::Expected<std::string> DescribeKernels(const Plan& plan, int64_t batch, const TargetChoice& target,
                                            const std::string& dump_folder) {
  KernelRegistry processor;
  RegisterCpuKernels(processor);
  if (target.IsOne() && target.kinds.front() == TargetKind::kCpu)
    return Describe(plan, batch, TargetKind::kCpu, processor);
  if (!target.card)
    return MakeError("--kernels", "a library chooses its engines for one kind of card",
                     "name it: --target=cuda:CARD, with one of " + CardNames());
  ACT_TRY(const std::unique_ptr<cuda::Toolkit> toolkit, cuda::LoadCard(target.card_name));
  cuda::KernelCache cache(toolkit->driver(), toolkit->compiler(), {.dump_folder = dump_folder});
  cuda::EngineCache engines(toolkit->convolutions());
  cuda::FaultSites faults;
  cuda::HostWork host_work(toolkit->driver());
  const cuda::CudaContext context{
      .toolkit = *toolkit, .cache = cache, .engines = engines, .fault_sites = faults, .host_work = host_work};
  KernelRegistry kernels;
  cuda::RegisterCudaKernels(kernels, context, processor);
  ACT_TRY(std::string text, Describe(plan, batch, TargetKind::kCuda, kernels));
  if (const std::string error = cache.WriteSources(); !error.empty())
    return MakeError("--dump-kernels", error);
  return text;
}

}  // namespace act
