// Conversions between float32 and the element types that fused loops read and write.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/math/bfloat16.h"
#include "runtime/base/tensor_type.h"

namespace act {

struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

template <class T>
float ToFloat(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return FloatFromBFloat16(x.bits);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return x.byte != 0 ? 1.0f : 0.0f;
  } else {
    return static_cast<float>(x);
  }
}

// Integers: toward zero, saturating, NaN gives 0. Bool: x != 0. bf16: to nearest even.
template <class T>
T FromFloat(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (std::isnan(x)) return {0x7FC0};
    const uint32_t bits = BitsOf(x);
    return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<uint8_t>(x != 0 ? 1 : 0)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(x);
  } else {
    if (std::isnan(x)) return 0;
    // 2^digits: the first float above T's range.
    constexpr float kAbove = static_cast<float>(uint64_t{1} << (std::numeric_limits<T>::digits - 1)) * 2.0f;
    if (x >= kAbove) return std::numeric_limits<T>::max();
    if (x < static_cast<float>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    return static_cast<T>(x);
  }
}

// Calls f with a value of the C++ type of `dtype`; every type but float16.
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
