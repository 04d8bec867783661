// What lies one after the other in a kernel's scratch space.
#pragma once

#include "runtime/executor/kernel.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {

class WorkspacePieces {
 public:
  explicit WorkspacePieces(const DeviceRange& workspace) : next_(workspace.data) {}
  // The next piece, which takes CudaAligned(bytes).
  DevicePointer Take(int64_t bytes) {
    const DevicePointer piece = next_;
    next_ = next_ + CudaAligned(bytes);
    return piece;
  }

 private:
  DevicePointer next_;
};

}  // namespace act::cuda
