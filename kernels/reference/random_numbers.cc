#include <cmath>
#include <numbers>

#include "kernels/math/random.h"
#include "kernels/reference/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act {
namespace {

// In [0, 1), with as many bits as a float has.
double Uniform(uint32_t bits) { return (bits >> 8) * 0x1p-24; }

// Standard normal, from two words. Box and Muller, A note on the generation of random normal deviates, 1958.
double Normal(uint32_t radius, uint32_t angle) {
  const double u = (static_cast<double>(radius) + 1) * 0x1p-32;  // never 0
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * angle * 0x1p-32);
}

// The numbers of a step, the same whenever the step is computed again.
std::unique_ptr<Kernel> Random(const KernelSite& site, std::string* why) {
  const Attributes& attrs = site.node->attrs;
  const std::string distribution = attrs.String("distribution");
  const bool normal = distribution == "normal";
  if (!normal && distribution != "uniform") return Refuse(why, "no distribution '" + distribution + "'");
  if (site.outputs.size() != 1 || site.outputs[0].dtype != DType::kFloat32)
    return Refuse(why, "makes one f32 tensor");
  const double offset = attrs.Float("offset"), scale = attrs.Float("scale", 1);
  const auto stream = static_cast<uint32_t>(attrs.Int("stream"));
  return MakeKernel([=](const KernelArgs& args) -> std::string {
    const RandomStream numbers{args.state->seed, args.state->step, stream};
    const int64_t count = args.outputs[0].elements, words = normal ? 2 * count : count;
    float* y = args.outputs[0].as<float>();
    for (int64_t i = 0; i < count; ++i) {
      const double z =
          normal ? Normal(Random32(numbers, 0, words, 2 * i), Random32(numbers, 0, words, 2 * i + 1))
                 : Uniform(Random32(numbers, 0, words, i));
      y[i] = static_cast<float>(offset + scale * z);
    }
    return "";
  });
}

}  // namespace

void RegisterReferenceRandom(KernelRegistry& registry) {
  registry.Add("Random", {"reference.random", Random});
}

}  // namespace act
