#include "compiler/import/known/onnx_types.h"

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {
namespace {

constexpr struct {
  int onnx;
  DType dtype;
} kTypes[] = {
    {onnx::TensorProto::FLOAT, DType::kFloat32},   {onnx::TensorProto::DOUBLE, DType::kFloat64},
    {onnx::TensorProto::FLOAT16, DType::kFloat16}, {onnx::TensorProto::BFLOAT16, DType::kBFloat16},
    {onnx::TensorProto::INT64, DType::kInt64},     {onnx::TensorProto::INT32, DType::kInt32},
    {onnx::TensorProto::INT16, DType::kInt16},     {onnx::TensorProto::INT8, DType::kInt8},
    {onnx::TensorProto::UINT8, DType::kUint8},     {onnx::TensorProto::BOOL, DType::kBool},
    {onnx::TensorProto::UINT16, DType::kUint16},   {onnx::TensorProto::UINT32, DType::kUint32},
    {onnx::TensorProto::UINT64, DType::kUint64},
};

}  // namespace

std::optional<DType> FromOnnxType(int64_t data_type) {
  for (const auto& type : kTypes)
    if (type.onnx == data_type) return type.dtype;
  return std::nullopt;
}

int ToOnnxType(DType dtype) {
  for (const auto& type : kTypes)
    if (type.dtype == dtype) return type.onnx;
  return onnx::TensorProto::UNDEFINED;
}

}  // namespace act::onnx_import
