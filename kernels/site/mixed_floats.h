// Operands and results that are float32 or bfloat16, and how a kernel reads and writes them one by one.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/math/convert.h"
#include "runtime/base/tensor_type.h"

namespace act {

inline constexpr char kMixedFloats[] =
    "operands must be float32 or bfloat16, and so must results, which are bfloat16 only if an operand is";

// Whether the factors of a product and its results have types that docs/runtime_ops.md allows.
inline bool AreMixedFloats(std::initializer_list<DType> factors, std::initializer_list<DType> results) {
  const auto is_float = [](DType t) { return t == DType::kFloat32 || t == DType::kBFloat16; };
  const auto has_bfloat16 = [](std::initializer_list<DType> types) {
    return std::find(types.begin(), types.end(), DType::kBFloat16) != types.end();
  };
  return std::all_of(factors.begin(), factors.end(), is_float) &&
         std::all_of(results.begin(), results.end(), is_float) &&
         (has_bfloat16(factors) || !has_bfloat16(results));
}

inline float Rounded(float x) { return ToFloat(FromFloat<BFloat16>(x)); }

// Element i of a factor. A float32 one is rounded if the other is bfloat16.
class MixedFactor {
 public:
  MixedFactor(DType dtype, DType other, const void* data)
      : bfloat16_(dtype == DType::kBFloat16), rounds_(other == DType::kBFloat16), data_(data) {}
  float operator[](int64_t i) const {
    if (bfloat16_) return ToFloat(static_cast<const BFloat16*>(data_)[i]);
    const float x = static_cast<const float*>(data_)[i];
    return rounds_ ? Rounded(x) : x;
  }

 private:
  bool bfloat16_, rounds_;
  const void* data_;
};

// Writes element i of a result.
inline void WriteMixed(DType dtype, void* data, int64_t i, float x) {
  if (dtype == DType::kBFloat16) {
    static_cast<BFloat16*>(data)[i] = FromFloat<BFloat16>(x);
  } else {
    static_cast<float*>(data)[i] = x;
  }
}

}  // namespace act
