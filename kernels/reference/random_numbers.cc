#include "kernels/math/random.h"
#include "kernels/math/random_number.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/random_shape.h"

namespace act {
namespace {

// The numbers of a step, the same whenever the step is computed again.
std::unique_ptr<Kernel> Random(const KernelSite& site, std::string* why) {
  const auto shape = RandomShapeOf(site, why);
  if (!shape) return nullptr;
  return MakeKernel([s = *shape](const KernelArgs& args) -> std::string {
    const RandomStream numbers{args.state->seed, args.state->step, s.stream};
    const int64_t count = args.outputs[0].elements, words = s.normal ? 2 * count : count;
    float* y = args.outputs[0].as<float>();
    for (int64_t i = 0; i < count; ++i) {
      const double z =
          s.normal ? NormalNumber(Random32(numbers, 0, words, 2 * i), Random32(numbers, 0, words, 2 * i + 1))
                   : UniformNumber(Random32(numbers, 0, words, i));
      y[i] = static_cast<float>(s.offset + s.scale * z);
    }
    return "";
  });
}

}  // namespace

void RegisterReferenceRandom(KernelRegistry& registry) {
  registry.Add("Random", {"reference.random", Random});
}

}  // namespace act
