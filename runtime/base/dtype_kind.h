// What kind of numbers an element type has: floats, integers, or bool, which is neither.
#pragma once

#include "runtime/base/tensor_type.h"

namespace act {

// Floats of 16 bits, of either form.
inline bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

inline bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || IsHalf(dtype);
}

inline bool IsInteger(DType dtype) { return !IsFloat(dtype) && dtype != DType::kBool; }

// Numbers that kernels add and compare. (Other floats become f32 when a model is imported.)
inline bool IsFloat32OrInteger(DType dtype) { return dtype == DType::kFloat32 || IsInteger(dtype); }

}  // namespace act
