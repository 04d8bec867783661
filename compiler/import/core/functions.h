// Model-local functions: a call becomes the nodes of the function's body.
#pragma once

#include <llvm/Support/Error.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::onnx_import {

// The functions of a model, by what calls name.
using Functions = std::map<std::string, const onnx::FunctionProto*>;
Functions FunctionsOf(const onnx::ModelProto& model);
std::string KeyOf(const onnx::NodeProto& call);
// The function that the node calls; none where it calls none, or one that we import as an operator.
const onnx::FunctionProto* FunctionOf(const Functions& functions, const onnx::NodeProto& node);

// The nodes of a graph in order, with calls of functions expanded, in graphs inside nodes too. The pointers
// are into the model and into `made`.
struct FlatNodes {
  std::vector<const onnx::NodeProto*> nodes;
  std::deque<onnx::NodeProto> made;
};

// Errors: functions that call themselves, expansions of more nodes than the limit, calls that do
// not fit the function.
llvm::Expected<FlatNodes> ExpandFunctions(const onnx::ModelProto& model);

}  // namespace act::onnx_import
