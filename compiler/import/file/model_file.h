// Reads an ONNX file: checks its kind and versions, and gives the bytes of its tensors.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <memory>
#include <string>

#include "compiler/import/known/known.h"
#include "onnx/onnx-ml.pb.h"
#include "runtime/plan/graph.h"

namespace act::onnx_import {

struct ModelFile {
  std::string path;  // of the model: external data lies beside it
  std::unique_ptr<onnx::ModelProto> proto;
  int64_t opset = 0;                   // version of the default domain
  std::map<std::string, float> fills;  // not stored: the number of all elements
};

// Errors: the file cannot be read; is truncated; is an actc plan or something else that is not an
// ONNX model; has versions we do not know.
llvm::Expected<ModelFile> ReadModel(const std::string& path);

inline constexpr int64_t kOldestOpset = 1, kNewestOpset = 23;  // versions of the standard operators

// Errors: a version of the standard operators that we do not know.
llvm::Error CheckOpset(int64_t opset, const std::string& place);

// The type that a tensor claims. Errors: a dtype that no value of ours has, negative dims, more
// than kTooLarge bytes.
llvm::Expected<TensorType> TypeOf(const onnx::TensorProto& tensor);

// Files of external data, mapped once each.
class ExternalData {
 public:
  explicit ExternalData(std::string model_path) : model_path_(std::move(model_path)) {}

  // `bytes` of the tensor's external data. The location must be in the model's folder, and the
  // range in the file. With `allow_missing` a missing file gives a tensor without data.
  llvm::Expected<HostTensor> Read(const onnx::TensorProto& tensor, int64_t bytes, bool allow_missing);

 private:
  std::string model_path_;
  std::map<std::string, HostTensor> files_;
};

// The tensor's bytes in our layout. Moves raw data out of `tensor`; external data is mapped.
// Errors: bytes that are too few or too many for the type.
llvm::Expected<HostTensor> TakeData(onnx::TensorProto& tensor, const TensorType& type, ExternalData& external,
                                    bool allow_missing);

struct ConstantTensor {
  TensorType type;
  HostTensor data;
};

// As TakeData, with the type that the tensor claims. Numbers of 16 bits become float32, which holds them
// exactly. float64 becomes float32 where there are more than kMaxKnownElements: only known tensors are
// folded in float64.
llvm::Expected<ConstantTensor> TakeConstant(onnx::TensorProto& tensor, ExternalData& external);

// The elements of a tensor of at most kMaxKnownElements.
llvm::Expected<Known> ToKnown(const TensorType& type, const HostTensor& data);

}  // namespace act::onnx_import
