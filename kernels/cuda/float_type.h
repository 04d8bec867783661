// Tensors that are float32 or bfloat16, for kernels that are compiled for either.
#pragma once

#include "kernels/cuda/strided_copy.h"

namespace act::cuda {

// In device code.
inline const char* FloatType(DType dtype) { return dtype == DType::kBFloat16 ? "act::BFloat16" : "float"; }

// Whether every sample begins where four elements may be loaded at once.
inline bool IsAlignedForVectors(const TensorView& t) {
  return CommonAlignment(t, t) % (4 * ByteSize(t.dtype)) == 0;
}

}  // namespace act::cuda
