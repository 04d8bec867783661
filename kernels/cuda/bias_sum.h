// A bias that a library does not add.
#pragma once

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/add_bias_parameters.h"
#include "runtime/base/tensor_type.h"

namespace act::cuda {

// to = from + bias, for pixels of `channels` elements; `from` is float32, and may be `to` if that is too.
class BiasSum {
 public:
  // Rows of `channels` elements begin where four may be loaded at once if their number is a multiple of four.
  BiasSum(const CudaContext& context, int64_t channels, DType to);
  // Fewer than 2^31 elements.
  Status Run(const void* from, const float* bias, void* to, int64_t elements) const;

 private:
  OwnKernel<AddBiasParameters> kernel_;
  Divisor groups_;
  int64_t at_once_;
};

}  // namespace act::cuda
