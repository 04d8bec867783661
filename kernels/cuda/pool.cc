#include "kernels/cuda/source/pool_parameters.h"

#include "kernels/cuda/device_window.h"
#include "kernels/cuda/float_type.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"

namespace act::cuda {
namespace {

const TensorView* OptionalOutput(std::span<const TensorView> outputs, size_t i) {
  return i < outputs.size() && outputs[i].bytes > 0 ? &outputs[i] : nullptr;
}

// The kernel for `function` with its template's arguments. `index` is null for averages, and if no reader
// wants the index.
std::unique_ptr<Kernel> Create(const CudaContext& context, const KernelSite& site,
                               const std::optional<Window>& window, const std::string& name,
                               std::string function, const TensorView* index, std::string* why) {
  if (!window) return nullptr;
  const TensorView &from = site.inputs[0], &to = site.outputs[0];
  if (from.elements == 0 && to.elements > 0) return Refuse(why, "an empty tensor");
  const auto parameters = WindowParametersOf(*window, why);
  if (!parameters) return nullptr;
  const int count = ChannelsAtOnce(window->channels);
  PoolParameters p;
  p.window = *parameters;
  p.channels = static_cast<int32_t>(window->channels);
  p.groups = DivisorOf(window->channels / count);
  p.items = static_cast<int32_t>(to.elements / count);
  p.include_pad = site.node->attrs.Int("count_include_pad") != 0;
  if (to.elements / count >= kMaxCount) return Refuse(why, "2^31 elements or more");
  function += std::string("<") + FloatType(from.dtype) + ", " + std::to_string(count);
  if (name.starts_with("max")) function += index && index->dtype == DType::kInt32 ? ", int32_t" : ", uint8_t";
  const OwnKernel<PoolParameters> kernel(context, name, "PoolParameters", "pool", function + ">");
  return MakeKernel([p, kernel](const KernelArgs& args) mutable -> std::string {
    const TensorView* made = OptionalOutput(args.outputs, 1);
    p.from = args.inputs[0].as<void>();
    p.to = args.outputs[0].as<void>();
    p.index = made ? made->as<void>() : args.inputs.size() > 1 ? args.inputs[1].as<void>() : nullptr;
    return kernel.LaunchItems(p.items, p);
  });
}

}  // namespace

void RegisterCudaPool(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("MaxPool", {"cuda.max_pool", [&context](const KernelSite& site, std::string* why) {
                             return Create(context, site, MaxPoolShapeOf(site, why), "max_pool", "MaxPool",
                                           OptionalOutput(site.outputs, 1), why);
                           }});
  registry.Add("MaxPoolGrad", {"cuda.max_pool_grad", [&context](const KernelSite& site, std::string* why) {
                                 return Create(context, site, MaxPoolGradShapeOf(site, why), "max_pool_grad",
                                               "MaxPoolGrad", &site.inputs[1], why);
                               }});
  registry.Add("AveragePool",
               {"cuda.average_pool", [&context](const KernelSite& site, std::string* why) {
                  const auto window = PoolShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
                  return Create(context, site, window, "average_pool", "AveragePool", nullptr, why);
                }});
  registry.Add("AveragePoolGrad",
               {"cuda.average_pool_grad", [&context](const KernelSite& site, std::string* why) {
                  const auto window = PoolShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
                  return Create(context, site, window, "average_pool_grad", "AveragePoolGrad", nullptr, why);
                }});
}

}  // namespace act::cuda
