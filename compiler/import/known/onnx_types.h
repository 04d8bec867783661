// ONNX's element types and ours. The numbers are those of TensorProto.DataType, a stable part of
// the format.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/tensor_type.h"

namespace act::onnx_import {

// nullopt for types that no value of ours has (strings, complex numbers, 4- and 8-bit floats, 4-bit
// integers).
std::optional<DType> FromOnnxType(int64_t data_type);
int ToOnnxType(DType dtype);

}  // namespace act::onnx_import
