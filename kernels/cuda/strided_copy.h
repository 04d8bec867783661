// Copies between strided tensors of one shape.
#pragma once

#include <optional>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/strided_copy_parameters.h"
#include "kernels/site/strided.h"

namespace act::cuda {

// The largest unit, in bytes, that divides both: 1 to 16.
int64_t UnitBytes(int64_t a, int64_t b);
// A type of so many bytes in device code.
const char* UnitType(int64_t bytes);
// The bytes of which a sample of either tensor is a multiple (0: any). Where a tile of samples runs at a
// time, that is how tensors are aligned; otherwise they are to more than a unit.
int64_t CommonAlignment(const TensorView& a, const TensorView& b);

// to[to_view.At(i)] = from[from_view.At(i)] for every i.
class StridedCopy {
 public:
  // Views have the same dims. Elements have `size` bytes, and tensors are aligned to `alignment`. Nullopt,
  // with the reason in *why, if there are too many elements or axes.
  static std::optional<StridedCopy> Of(const CudaContext& context, const Strided& from_view,
                                       const Strided& to_view, int64_t size, int64_t alignment,
                                       std::string* why);
  Status Run(const TensorView& from, const TensorView& to) const;

 private:
  explicit StridedCopy(const OwnKernel<StridedCopyParameters>& kernel) : kernel_(kernel) {}

  OwnKernel<StridedCopyParameters> kernel_;
  StridedCopyParameters parameters_;
  int64_t from_offset_ = 0, to_offset_ = 0;  // bytes
};

}  // namespace act::cuda
