// Rows of numbers between memory and a kernel that computes in float32.
#pragma once

#include <cstdint>

#include "kernels/cpu/coded_numbers.h"
#include "kernels/math/convert.h"
#include "runtime/base/tensor_type.h"

namespace act {

// How a kernel sees the numbers of a tensor.
enum class FloatSource : uint8_t {
  kFloat32,
  kRounded,  // float32 that is rounded to bfloat16
  kBFloat16,
  kCode,  // of float32
  kRoundedCode
};

// Of a factor of a product. A float32 one is rounded if the other is bfloat16.
inline FloatSource SourceOf(DType dtype, DType other) {
  if (dtype == DType::kBFloat16) return FloatSource::kBFloat16;
  return other == DType::kBFloat16 ? FloatSource::kRounded : FloatSource::kFloat32;
}

// A matrix in memory whose rows are contiguous.
struct FloatRows {
  FloatSource source = FloatSource::kFloat32;
  const void* data = nullptr;
  int64_t row = 0;  // elements from one row to the next
  const CodedNumbers* code = nullptr;
  int64_t first = 0;  // of a code: the element with which the matrix begins

  FloatRows At(int64_t element) const {
    if (code) return {source, data, row, code, first + element};
    const int64_t bytes = source == FloatSource::kBFloat16 ? 2 : 4;
    return {source, static_cast<const char*>(data) + element * bytes, row};
  }
};

// to[i * to_row + j] = from[i, j]
void ReadRows(const FloatRows& from, int64_t rows, int64_t columns, float* to, int64_t to_row);

// to[i * to_row + j] = from[i * from_row + j] * factor, rounded to nearest even.
void WriteBFloat16Rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, float factor,
                       BFloat16* to, int64_t to_row);

// to[i] = from[i], rounded to bfloat16 and still a float. `from` may be `to`.
void RoundRow(int64_t count, const float* from, float* to);

}  // namespace act
