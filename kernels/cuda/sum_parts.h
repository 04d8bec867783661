// Sums that blocks make in parts: how many, and adding them.
#pragma once

#include <optional>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/sum_parts_parameters.h"

namespace act::cuda {

// Parts [count, elements] lie in the workspace, in float32. One part is the result itself, and takes none, if the
// result is float32, too.
class PartSums {
 public:
  // As many parts of at least `at_least` of `length` summands as `blocks` blocks a part need to fill a card.
  // Their number, and so the bits of the sum, depend on the shape and the plan alone, not on the card.
  // A result of bfloat16 fits if WorkspaceBytes() does.
  PartSums(const CudaContext& context, int64_t elements, int64_t blocks, int64_t length, int64_t at_least,
           int64_t workspace_bytes, DType result = DType::kFloat32);

  int64_t count() const { return count_; }
  int64_t part_length() const { return part_length_; }
  int64_t WorkspaceBytes() const;
  // Where parts are to be written.
  float* Target(void* result, float* workspace) const {
    return kernel_ ? workspace : static_cast<float*>(result);
  }
  // Adds them, in order.
  Status Add(const float* workspace, void* result) const;

 private:
  std::optional<OwnKernel<SumPartsParameters>> kernel_;  // if parts lie apart
  int64_t elements_, count_ = 1, part_length_;
};

}  // namespace act::cuda
