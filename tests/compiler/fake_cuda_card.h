// A card that the processor plays (tests/fake_cuda), with the kernels of the CUDA backend, for whole steps.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/cpu/registry.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/registry.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/layout.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/paths.h"
#include "tests/take.h"

namespace act {

inline void* FakeCudaLibrary() {
  void* library = dlopen(FakeCudaPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

// With the options that the environment has now (tests/fake_cuda/README.md).
inline std::unique_ptr<cuda::Toolkit> OpenFakeCuda() {
  std::string error, hint;
  const auto open = reinterpret_cast<cuda::OpenToolkit>(dlsym(FakeCudaLibrary(), cuda::kOpenToolkit));
  std::unique_ptr<cuda::Toolkit> toolkit(open(0, &error, &hint));
  if (!toolkit) throw std::runtime_error(error);
  return toolkit;
}

class FakeCudaCard {
 public:
  explicit FakeCudaCard(const cuda::CudaOptions& options = {}) {
    std::unique_ptr<cuda::Toolkit> toolkit = OpenFakeCuda();
    controls_ =
        reinterpret_cast<fake::ControlsOf>(dlsym(FakeCudaLibrary(), fake::kControlsOf))(toolkit.get());
    device_ = Take(cuda::CudaDevice::Open(std::move(toolkit), options));
    RegisterCpuKernels(host_);
    cuda::RegisterCudaKernels(kernels_, device_->context(), host_);
  }
  std::unique_ptr<Executor> Open(const Plan& plan, int64_t batch) {
    return Take(Executor::Create(plan, Take(LayOut(plan, batch, TargetKind::kCuda)), *device_, kernels_,
                                 {.threads = 1}));
  }
  fake::Controls& controls() { return *controls_; }

 private:
  fake::Controls* controls_ = nullptr;
  std::unique_ptr<cuda::CudaDevice> device_;
  KernelRegistry host_, kernels_;
};

}  // namespace act
