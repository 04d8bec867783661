// Element types by the names that device code has for them.
#pragma once

#include "runtime/base/dtype_kind.h"

namespace act::cuda {

// Null if it is no integer. A bool is a byte of 0 or 1.
inline const char* IntegerType(DType dtype) {
  switch (dtype) {
    case DType::kInt64:
      return "int64_t";
    case DType::kInt32:
      return "int32_t";
    case DType::kInt16:
      return "int16_t";
    case DType::kInt8:
      return "int8_t";
    case DType::kUint64:
      return "uint64_t";
    case DType::kUint32:
      return "uint32_t";
    case DType::kUint16:
      return "uint16_t";
    case DType::kUint8:
    case DType::kBool:
      return "uint8_t";
    default:
      return nullptr;
  }
}

// The same, and float32.
inline const char* NumberType(DType dtype) { return dtype == DType::kFloat32 ? "float" : IntegerType(dtype); }

}  // namespace act::cuda
