// ONNX Runtime's training checkpoint: the initial values of a training graph's parameters, which
// are inputs there.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>

#include "runtime/plan/graph.h"

namespace act::onnx_import {

struct CheckpointTensor {
  TensorType type;
  HostTensor data;
};
// By name: parameters that train, and frozen ones (running statistics among them).
using OrtCheckpoint = std::map<std::string, CheckpointTensor>;

// Errors: not readable, another kind of file, truncated or damaged, another version, tensors
// without data or of a type other than f32, one name twice.
llvm::Expected<OrtCheckpoint> ReadOrtCheckpoint(const std::string& path);

}  // namespace act::onnx_import
