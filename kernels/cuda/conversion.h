// Copies of tensors in another type: for operands of the libraries, in the workspace.
#pragma once

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/conversion_parameters.h"
#include "runtime/base/tensor_type.h"

namespace act::cuda {

// `elements` of float32 become bfloat16, or the other way round. `vectors`: four may be loaded at once,
// where their number allows it.
class Conversion {
 public:
  Conversion(const CudaContext& context, DType from, DType to, int64_t elements, bool vectors);
  Status Run(const void* from, void* to) const;

 private:
  OwnKernel<ConversionParameters> kernel_;
  int64_t items_;
};

}  // namespace act::cuda
