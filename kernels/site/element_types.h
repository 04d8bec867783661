// Dispatches from an element type that is known only at run time to code for that type:
// kernels/math/convert.h, a tensor at a time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/math/convert.h"
#include "runtime/base/dtype_kind.h"

namespace act {

// Calls f with a value of the C++ type of `dtype`. Covers every type but float16.
template <class F>
void WithType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kUint8:
      return f(uint8_t{});
    case DType::kUint16:
      return f(uint16_t{});
    case DType::kUint32:
      return f(uint32_t{});
    case DType::kUint64:
      return f(uint64_t{});
    case DType::kBool:
      return f(Bool{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat16:
      return;
  }
}

// The same for integers and bool alone; a bool is a byte of 0 or 1.
template <class F>
void WithIntegerType(DType dtype, F&& f) {
  WithType(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) f(T{});
    if constexpr (std::is_same_v<T, Bool>) f(uint8_t{});
  });
}

// The same for float32 too.
template <class F>
void WithNumberType(DType dtype, F&& f) {
  if (dtype == DType::kFloat32) return f(float{});
  WithIntegerType(dtype, f);
}

// x[i] = from[i * stride], i < n.
inline void ReadAsFloat(DType dtype, const void* from, int64_t stride, int64_t n, float* x) {
  WithType(dtype, [&](auto type) {
    const auto* p = static_cast<const decltype(type)*>(from);
    for (int64_t i = 0; i < n; ++i) x[i] = ToFloat(p[i * stride]);
  });
}

// to[i] = x[i], i < n.
inline void WriteFromFloat(DType dtype, const float* x, int64_t n, void* to) {
  WithType(dtype, [&](auto type) {
    auto* p = static_cast<decltype(type)*>(to);
    for (int64_t i = 0; i < n; ++i) p[i] = FromFloat<decltype(type)>(x[i]);
  });
}

}  // namespace act
