#include "kernels/reference/lambda_kernel.h"
#include "kernels/reference/registry.h"

namespace act {
namespace {

// g = grad + weight_decay param;  velocity = momentum velocity + g;  param -= lr velocity
std::unique_ptr<Kernel> SgdUpdate(const KernelSite& site, std::string* why) {
  for (const TensorView& t : site.inputs)
    if (t.dtype != DType::kFloat32 || t.elements != site.inputs[0].elements)
      return Refuse(why, "param, velocity and grad are not f32 tensors of one size");
  return MakeKernel([](const KernelArgs& args) -> std::string {
    float* param = args.inputs[0].as<float>();
    float* velocity = args.inputs[1].as<float>();
    const float* grad = args.inputs[2].as<float>();
    const StepState& state = *args.state;
    for (int64_t i = 0; i < args.inputs[0].elements; ++i) {
      const double g = grad[i] + double{state.weight_decay} * param[i];
      const double v = double{state.momentum} * velocity[i] + g;
      velocity[i] = static_cast<float>(v);
      param[i] = static_cast<float>(param[i] - state.learning_rate * v);
    }
    return "";
  });
}

}  // namespace

void RegisterReferenceSgd(KernelRegistry& registry) {
  registry.Add("SgdUpdate", {"reference.sgd_update", SgdUpdate});
}

}  // namespace act
