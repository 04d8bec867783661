#include "tools/device.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/registry.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/toolkit.h"
#include "runtime/base/error.h"

namespace act {
namespace {

using cuda::CudaDevice;
using cuda::FloatMath;

ChosenDevice Processor() {
  ChosenDevice chosen;
  chosen.device = std::make_unique<CpuDevice>();
  RegisterCpuKernels(chosen.kernels);
  return chosen;
}

llvm::Expected<ChosenDevice> Card(const std::string& name, const DeviceOptions& options) {
  ACT_TRY(std::unique_ptr<cuda::Toolkit> toolkit, cuda::LoadToolkit(name));
  const bool tf32 = options.float_math == "tf32";
  const cuda::CudaOptions card{
      .conv_math = tf32 || options.float_math == "tf32-conv" ? FloatMath::kTf32 : FloatMath::kStrict,
      .product_math = tf32 ? FloatMath::kTf32 : FloatMath::kStrict,
      .profile = options.profile,
      .kernels = {.folder = cuda::DefaultKernelFolder(),
                  .dump_folder = options.dump_kernels,
                  .say = options.say,
                  .prepared = options.prepared},
      .timer = EngineTiming(options.tuning, *toolkit, options.say)};
  ACT_TRY(std::unique_ptr<CudaDevice> device, CudaDevice::Open(std::move(toolkit), card));
  ChosenDevice chosen;
  RegisterCpuKernels(*chosen.host_kernels);
  cuda::RegisterCudaKernels(chosen.kernels, device->context(), *chosen.host_kernels);
  chosen.device = std::move(device);
  return chosen;
}

}  // namespace

bool IsDeviceName(const std::string& name) {
  return name == "cpu" || name == "cuda" || name == "auto" || name == "fake";
}

bool IsFloatMathName(const std::string& name) {
  return name == "f32" || name == "tf32-conv" || name == "tf32";
}

llvm::Expected<ChosenDevice> OpenDevice(const DeviceOptions& options) {
  if (options.name == "cpu") return Processor();
  if (options.name != "auto") return Card(options.name, options);
  llvm::Expected<ChosenDevice> card = Card("cuda", options);
  if (card) return card;
  ChosenDevice chosen = Processor();
  const std::string reason = llvm::toString(card.takeError());  // and a hint in the next line
  chosen.note = "the processor runs the plan: " + reason.substr(0, reason.find('\n'));
  return chosen;
}

}  // namespace act
