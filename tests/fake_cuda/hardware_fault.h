// Faults that the processor finds in kernels (an address that is not accessible, a division by 0, a
// stack that is full) become faults of the launch.
#pragma once

#include <csignal>
#include <vector>

namespace act::fake {

class BlockRunner;

// While one exists, such faults of `runner`'s threads end its launch. All others end the process, as ever.
class HardwareFaultsOfKernels {
 public:
  explicit HardwareFaultsOfKernels(BlockRunner& runner);
  ~HardwareFaultsOfKernels();
  HardwareFaultsOfKernels(const HardwareFaultsOfKernels&) = delete;
  HardwareFaultsOfKernels& operator=(const HardwareFaultsOfKernels&) = delete;

 private:
  struct sigaction before_[3] = {};
  stack_t stack_before_ = {};
};

}  // namespace act::fake
