#include "runtime/base/tensor_type.h"

namespace act {

int64_t ByteSize(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUint64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kUint32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
    case DType::kUint16:
      return 2;
    case DType::kUint8:
    case DType::kBool:
    case DType::kInt8:
      return 1;
  }
  return 1;
}

std::string_view ToString(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kInt64:
      return "i64";
    case DType::kInt32:
      return "i32";
    case DType::kUint8:
      return "u8";
    case DType::kBool:
      return "bool";
    case DType::kFloat64:
      return "f64";
    case DType::kFloat16:
      return "f16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kUint16:
      return "u16";
    case DType::kUint32:
      return "u32";
    case DType::kUint64:
      return "u64";
  }
  return "?";
}

Dim TensorType::Elements() const {
  Dim product(1);
  for (const Dim& d : dims) product = product * d;
  return product;
}

Dim TensorType::Bytes() const { return Elements() * Dim(ByteSize(dtype)); }

bool HasBatchAxis(const TensorType& type) { return !type.dims.empty() && !type.dims[0].IsFixed(); }

std::vector<int64_t> DimsAt(const Dims& dims, int64_t n) {
  std::vector<int64_t> r;
  r.reserve(dims.size());
  for (const Dim& d : dims) r.push_back(d.At(n));
  return r;
}

int64_t ElementCount(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (int64_t d : dims) product = SaturatingMul(product, d);
  return product;
}

std::string ToString(const Dims& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) s += ',';
    s += ToString(dims[i]);
  }
  return s + "]";
}

std::string ToString(const TensorType& type) {
  return std::string(ToString(type.dtype)) + ToString(type.dims);
}

}  // namespace act
