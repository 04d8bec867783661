// Model-local functions: a call becomes the nodes of the function's body.
#pragma once

#include <llvm/Support/Error.h>

#include <deque>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// The nodes of a graph in order, with calls of functions expanded. The pointers are into the model
// and into `made`.
struct FlatNodes {
  std::vector<const onnx::NodeProto*> nodes;
  std::deque<onnx::NodeProto> made;
};

// Errors: functions that call themselves, expansions of more nodes than the limit, calls that do
// not fit the function.
llvm::Expected<FlatNodes> ExpandFunctions(const onnx::ModelProto& model);

}  // namespace act::onnx_import
