#include "kernels/cuda/prepare.h"

#include "kernels/cuda/registry.h"
#include "runtime/base/error.h"

namespace act::cuda {
namespace {

// Has all kernels of both graphs requested, and the engines of their convolutions chosen, as a run would.
llvm::Error ChooseAll(const CudaContext& context, const Plan& plan, const MemoryLayout& layout,
                      const KernelRegistry& host) {
  KernelRegistry kernels;
  RegisterCudaKernels(kernels, context, host);
  ACT_CHECK_OK(ChooseKernels(plan.train, layout.train, layout.batch, kernels, 1).takeError());
  return ChooseKernels(plan.eval, layout.eval, layout.batch, kernels, 1).takeError();
}

}  // namespace

llvm::Expected<std::shared_ptr<const Prepared>> Prepare(std::unique_ptr<Toolkit> toolkit, const Plan& plan,
                                                        const MemoryLayout& layout,
                                                        const KernelRegistry& host,
                                                        const KernelCacheOptions& kernels) {
  ACT_TRY(const std::unique_ptr<CudaDevice> device,
          CudaDevice::Open(std::move(toolkit), {.kernels = kernels}));
  CudaContext context = device->context();
  for (const FloatMath math : {FloatMath::kStrict, FloatMath::kTf32}) {
    context.conv_math = context.product_math = math;
    ACT_CHECK_OK(ChooseAll(context, plan, layout, host));
  }
  auto prepared = std::make_shared<Prepared>();
  prepared->card = device->name();
  prepared->compiler = context.cache.CodeName();
  prepared->library = context.toolkit.convolutions().Key();
  prepared->batch = layout.batch;
  if (const Status status = context.cache.Images(&prepared->kernels); !status.empty())
    return MakeError(device->name(), status);
  prepared->engines = context.engines.Chosen();
  return prepared;
}

std::string MisfitOf(const Prepared& prepared, const Card& card, const KernelCache& cache,
                     const ConvolutionLibrary& library) {
  const bool compile = prepared.compiler != cache.CodeName(), choose = prepared.library != library.Key();
  if (!compile && !choose) return "";
  const std::string what = compile && choose ? "code and engines"
                           : compile         ? "code"
                                             : "engines",
                    instead = compile && choose ? "kernels are compiled and engines chosen"
                              : compile         ? "kernels are compiled"
                                                : "engines are chosen";
  return "the plan brings " + what + " for " + prepared.card + " (" + prepared.compiler + "; " +
         prepared.library + "), and this is " + card.name + " (" + cache.CodeName() + "; " + library.Key() +
         "): " + instead + " for this run";
}

}  // namespace act::cuda
