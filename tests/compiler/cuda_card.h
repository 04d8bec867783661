// The card of tests/unit/test_card.h with the kernels of the CUDA backend, for whole steps.
#pragma once

#include <memory>

#include "kernels/cpu/registry.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/registry.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/layout.h"
#include "tests/take.h"
#include "tests/unit/test_card.h"

namespace act {

class CudaCard {
 public:
  explicit CudaCard(cuda::CudaOptions options = {}) {
    if (IsRealCard() && options.kernels.folder.empty()) options.kernels.folder = cuda::DefaultKernelFolder();
    OpenedCard opened = OpenTestCard();
    controls_ = opened.controls;
    device_ = Take(cuda::CudaDevice::Open(std::move(opened.toolkit), options));
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
