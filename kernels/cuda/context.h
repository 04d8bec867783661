// What kernels of the CUDA backend are made with, and run with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/engine_cache.h"
#include "kernels/cuda/kernel_cache.h"
#include "kernels/cuda/libraries.h"
#include "runtime/executor/device_pointer.h"
#include "runtime/executor/kernel.h"

namespace act::cuda {

// The nodes whose kernels may meet faults in data (kernels/math/step_block.h: FaultRecord), by number.
class FaultSites {
 public:
  // The number by which a kernel of this node reports. `place` is for messages: "node 'loss'
  // (SoftmaxCrossEntropy)".
  int32_t Add(std::string place) {
    places_.push_back(std::move(place));
    return static_cast<int32_t>(places_.size()) - 1;
  }
  const std::string& Place(int32_t number) const { return places_[static_cast<size_t>(number)]; }

 private:
  std::vector<std::string> places_;
};

class HostWork;

// One for a device. Kernels keep a reference to it.
struct CudaContext {
  Toolkit& toolkit;
  KernelCache& cache;
  EngineCache& engines;
  FaultSites& fault_sites;
  HostWork& host_work;       // kernels/cuda/host_work.h
  Stream* stream = nullptr;  // where kernels enqueue
  // In device memory: the step's StepImage (kernels/cuda/step_image.h), which begins with its StepBlock
  // (kernels/math/step_block.h), and the FaultRecord, where nodes of fault_sites report.
  DevicePointer step_block = {}, fault_record = {};
  FloatMath conv_math = FloatMath::kStrict, product_math = FloatMath::kStrict;

  Driver& driver() const { return toolkit.driver(); }
};

// Launches a kernel whose parameter is the struct `p`.
template <class Parameters>
Status Launch(const CudaContext& context, const CompiledKernel& kernel, int64_t blocks, int threads,
              const Parameters& p, int64_t shared_bytes = 0) {
  return context.driver().Launch(context.stream, kernel.function, {static_cast<uint32_t>(blocks), 1, 1},
                                 {static_cast<uint32_t>(threads), 1, 1}, shared_bytes, &p, sizeof p);
}

}  // namespace act::cuda
