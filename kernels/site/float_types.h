// Tensors that are float32 or bfloat16 (docs/runtime_ops.md, "bfloat16").
#pragma once

#include <utility>

#include "kernels/math/convert.h"
#include "runtime/base/tensor_type.h"

namespace act {

inline bool IsFloat32OrBFloat16(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

// Calls f with a value of the C++ type of `dtype`, which is one of the two.
template <class F>
decltype(auto) WithFloatType(DType dtype, F&& f) {
  return dtype == DType::kBFloat16 ? std::forward<F>(f)(BFloat16{}) : std::forward<F>(f)(float{});
}

}  // namespace act
