#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// A number of the step's state, as a tensor that fused loops read.
std::unique_ptr<Kernel> Create(const KernelSite& site, std::string* why) {
  const std::string name = site.node->attrs.String("name");
  const StepScalar scalar = FindStepScalar(name);
  if (!scalar) return Refuse(why, "a step has no number '" + name + "'");
  if (site.outputs.size() != 1 || site.outputs[0].elements != 1 || site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "its result is not one f32");
  return MakeKernel([scalar](const KernelArgs& args) -> std::string {
    *args.outputs[0].as<float>() = static_cast<float>(scalar(args.state->update));
    return "";
  });
}

}  // namespace

void RegisterReferenceStepScalar(KernelRegistry& registry) {
  registry.Add("StepScalar", {"reference.step_scalar", Create});
}

}  // namespace act
