#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/reference/lambda_kernel.h"

namespace act {
namespace {

ACT_VECTOR_CLONES void Update(float* __restrict param, float* __restrict velocity,
                              const float* __restrict grad, int64_t count, float rate, float momentum,
                              float decay) {
  for (int64_t i = 0; i < count; ++i) {
    const float v = momentum * velocity[i] + (grad[i] + decay * param[i]);
    velocity[i] = v;
    param[i] -= rate * v;
  }
}

std::unique_ptr<Kernel> SgdUpdate(const KernelSite& site, std::string* why) {
  for (const TensorView& t : site.inputs)
    if (t.dtype != DType::kFloat32 || t.elements != site.inputs[0].elements)
      return Refuse(why, "param, velocity and grad are not f32 tensors of one size");
  return MakeKernel([](const KernelArgs& args) -> std::string {
    constexpr int64_t kBlock = 8192;
    const int64_t count = args.inputs[0].elements;
#pragma omp parallel for schedule(static) if (count > kParallelElements)
    for (int64_t at = 0; at < count; at += kBlock)
      Update(args.inputs[0].as<float>() + at, args.inputs[1].as<float>() + at,
             args.inputs[2].as<float>() + at, std::min(kBlock, count - at), args.state->learning_rate,
             args.state->momentum, args.state->weight_decay);
    return "";
  });
}

}  // namespace

void RegisterCpuSgd(KernelRegistry& registry) { registry.Add("SgdUpdate", {"cpu.sgd_update", SgdUpdate}); }

}  // namespace act
