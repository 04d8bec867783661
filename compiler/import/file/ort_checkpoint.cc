#include "compiler/import/file/ort_checkpoint.h"

#include <cstdint>

#include "onnx/onnx-ml.pb.h"
#include "ort_checkpoint_generated.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace act::onnx_import {
namespace {

constexpr int32_t kVersion = 2;

llvm::Error AddTensor(OrtCheckpoint& checkpoint, const ort::Tensor& tensor) {
  const std::string name = tensor.name() ? tensor.name()->str() : "";
  const std::string place = "tensor '" + name + "'";
  if (name.empty()) return MakeError("", "holds a tensor without a name");
  if (tensor.data_type() != onnx::TensorProto::FLOAT)
    return MakeError(place,
                     "has element type " + std::to_string(tensor.data_type()) + "; training computes in f32");
  TensorType type{DType::kFloat32, {}};
  // FlatBuffers' verifier accepts a vector of 8-byte numbers at any multiple of 4 bytes.
  if (tensor.dims() && reinterpret_cast<uintptr_t>(tensor.dims()->Data()) % alignof(int64_t) != 0)
    return MakeError(place, "is damaged: its extents are not aligned");
  if (tensor.dims())
    for (const int64_t extent : *tensor.dims()) {
      if (extent < 0 || extent >= kTooLarge)
        return MakeError(place, "has the extent " + std::to_string(extent));
      type.dims.push_back(extent);
    }
  const Dim bytes = type.Bytes();
  const int64_t held = tensor.raw_data() ? static_cast<int64_t>(tensor.raw_data()->size()) : 0;
  if (bytes.TooLarge() || held != bytes.fixed)
    return MakeError(place, "holds " + std::to_string(held) + " bytes, " + ToString(type) + " needs " +
                                (bytes.TooLarge() ? "too many" : std::to_string(bytes.fixed)));
  // The data is copied, since the format aligns bytes to 4 at most.
  HostTensor data = HostTensor::Copy(held > 0 ? tensor.raw_data()->data() : nullptr, held);
  if (!checkpoint.emplace(name, CheckpointTensor{std::move(type), std::move(data)}).second)
    return MakeError(place, "is there twice");
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<OrtCheckpoint> ReadOrtCheckpoint(const std::string& path) {
  ACT_TRY(const auto file, MappedFile::Open(path));
  const auto* bytes = reinterpret_cast<const uint8_t*>(file->bytes().data());
  const size_t size = file->bytes().size();
  if (size < 8 || !ort::CheckpointBufferHasIdentifier(bytes))
    return MakeError(path, "is no checkpoint of ONNX Runtime");
  flatbuffers::Verifier verifier(bytes, size);
  if (!ort::VerifyCheckpointBuffer(verifier)) return MakeError(path, "is truncated or damaged");
  const ort::Checkpoint& root = *ort::GetCheckpoint(bytes);
  if (root.version() != kVersion)
    return MakeError(path,
                     "is version " + std::to_string(root.version()) + " of the format; version " +
                         std::to_string(kVersion) + " is supported",
                     "generate the artifacts again with ONNX Runtime 1.19");
  OrtCheckpoint checkpoint;
  if (!root.module_state()) return checkpoint;
  for (const auto* list :
       {root.module_state()->requires_grad_params(), root.module_state()->frozen_params()}) {
    if (!list) continue;
    for (const ort::Tensor* tensor : *list)
      if (llvm::Error error = AddTensor(checkpoint, *tensor)) return WithPlace(std::move(error), path);
  }
  return checkpoint;
}

}  // namespace act::onnx_import
