// Random: numbers that follow from the step, which a recorded step reads anew.
#include "kernels/math/random.h"
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/source/random_parameters.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/random_shape.h"

namespace act::cuda {
namespace {

std::unique_ptr<Kernel> Random(const CudaContext& context, const KernelSite& site, std::string* why) {
  const auto shape = RandomShapeOf(site, why);
  if (!shape) return nullptr;
  const int64_t count = site.outputs[0].elements;
  if (count >= kMaxCount) return Refuse(why, "2^31 elements");
  // Whole blocks of the generator's elements, of which the last one may reach past the end.
  const int64_t numbers = kRandom32Block / (shape->normal ? 2 : 1);
  RandomParameters shared;
  shared.offset = shape->offset;
  shared.scale = shape->scale;
  shared.count = count;
  shared.stream = shape->stream;
  shared.items = static_cast<int32_t>(DivideUp(count, numbers) * numbers / kNumbersOfThread);
  const OwnKernel<RandomParameters> kernel(context, shape->normal ? "random_normal" : "random_uniform",
                                           "RandomParameters", "random",
                                           "Random" + TemplateArguments(shape->normal ? "true" : "false"));
  return MakeKernel([&context, shared, kernel](const KernelArgs& args) -> std::string {
    RandomParameters p = shared;
    p.step = context.step_block.as<StepBlock>();
    p.y = args.outputs[0].as<float>();
    return kernel.LaunchItems(p.items, p);
  });
}

}  // namespace

void RegisterCudaRandom(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Random", {"cuda.random", [&context](const KernelSite& site, std::string* why) {
                            return Random(context, site, why);
                          }});
}

}  // namespace act::cuda
