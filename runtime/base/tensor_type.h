// Element types and tensor types. Every value is a plain row-major tensor in its own dims.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dim.h"

namespace act {

enum class DType : uint8_t {
  kFloat32,
  kInt64,
  kInt32,
  kUint8,
  kBool,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kInt16,
  kUint16,
  kUint32,
  kUint64
};
inline constexpr DType kLastDType = DType::kUint64;

// Bytes of one element.
int64_t ByteSize(DType dtype);
// The names in textual dumps: "f32", "i64", ...
std::string_view ToString(DType dtype);

using Dims = std::vector<Dim>;

struct TensorType {
  DType dtype = DType::kFloat32;
  Dims dims;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  Dim Elements() const;
  // Elements() * ByteSize(dtype), as a polynomial in N.
  Dim Bytes() const;
  bool operator==(const TensorType&) const = default;
};

// Whether the leading axis varies with N. If so, it counts samples, and codec groups never straddle
// them.
bool HasBatchAxis(const TensorType& type);

// The concrete dims at batch size n.
std::vector<int64_t> DimsAt(const Dims& dims, int64_t n);
// The product of concrete dims. Saturates at kTooLarge.
int64_t ElementCount(const std::vector<int64_t>& dims);

// For example "f32[N,16,16,8]".
std::string ToString(const TensorType& type);
std::string ToString(const Dims& dims);

}  // namespace act
