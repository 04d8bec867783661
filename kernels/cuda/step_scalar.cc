// StepScalar: a copy from the step's block, which the host fills before each step in the order of
// AllStepScalars().
#include <cstddef>

#include "kernels/cuda/registry.h"
#include "kernels/math/step_block.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

std::unique_ptr<Kernel> StepScalar(const CudaContext& context, const KernelSite& site, std::string* why) {
  const std::string name = site.node->attrs.String("name");
  const auto scalars = AllStepScalars();
  size_t i = 0;
  while (i < scalars.size() && name != scalars[i].name) ++i;
  if (i == scalars.size() || i >= kMaxStepScalars) return Refuse(why, "a step has no number '" + name + "'");
  if (site.outputs.size() != 1 || site.outputs[0].elements != 1 || site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "its result is not one f32");
  const auto offset = static_cast<int64_t>(offsetof(StepBlock, scalars) + i * sizeof(float));
  return MakeKernel([&context, offset](const KernelArgs& args) -> std::string {
    return context.driver().CopyOnDevice(context.stream, args.outputs[0].as<std::byte>(),
                                         (context.step_block + offset).as<std::byte>(), sizeof(float));
  });
}

}  // namespace

void RegisterCudaStepScalar(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("StepScalar", {"cuda.step_scalar", [&context](const KernelSite& site, std::string* why) {
                                return StepScalar(context, site, why);
                              }});
}

}  // namespace act::cuda
