// SwapOut and SwapIn: copies between a card's memory and the host's.
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "runtime/plan/runtime_op.h"

namespace act::cuda {
namespace {

std::unique_ptr<Kernel> Swap(const CudaContext& context, const KernelSite& site, bool out, std::string* why) {
  if (site.inputs.size() != 1 || site.outputs.size() != 1 || site.inputs[0].bytes != site.outputs[0].bytes)
    return Refuse(why, "copies one value");
  return MakeKernel([&context, out](const KernelArgs& args) -> std::string {
    auto* const to = args.outputs[0].as<std::byte>();
    const auto* const from = args.inputs[0].as<const std::byte>();
    const int64_t bytes = args.outputs[0].bytes;
    if (bytes == 0) return "";
    return out ? context.driver().CopyToHost(context.stream, to, from, bytes)
               : context.driver().CopyToDevice(context.stream, to, from, bytes);
  });
}

}  // namespace

void RegisterCudaSwap(KernelRegistry& registry, const CudaContext& context) {
  registry.Add(kSwapOut, {"cuda.swap_out", [&context](const KernelSite& site, std::string* why) {
                            return Swap(context, site, /*out=*/true, why);
                          }});
  registry.Add(kSwapIn, {"cuda.swap_in", [&context](const KernelSite& site, std::string* why) {
                           return Swap(context, site, /*out=*/false, why);
                         }});
}

}  // namespace act::cuda
