// Transposes by tiles: for the operator, and for weights on their way to a library.
#pragma once

#include <optional>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/transpose_parameters.h"
#include "kernels/site/strided.h"

namespace act::cuda {

// y[i] = x[view.At(i)], where the view counts each element of x once.
class TileTranspose {
 public:
  // `rounds`: float32 elements become bfloat16. Nullopt, with the reason in *why, where y's last axis is x's last (then rows can be copied), or there are
  // too many axes.
  static std::optional<TileTranspose> Of(const CudaContext& context, const Strided& view,
                                         int64_t element_bytes, std::string* why, bool rounds = false);
  Status Run(const void* x, void* y) const;

 private:
  explicit TileTranspose(const OwnKernel<TransposeParameters>& kernel) : kernel_(kernel) {}

  OwnKernel<TransposeParameters> kernel_;
  TransposeParameters parameters_;
  int64_t blocks_ = 0;
};

}  // namespace act::cuda
