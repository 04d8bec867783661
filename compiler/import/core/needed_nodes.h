// Which nodes of a model an import needs, and whether all of them can be imported.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/import/core/functions.h"
#include "compiler/import/core/importer.h"

namespace act::onnx_import {

using Nodes = std::vector<const onnx::NodeProto*>;

// "a, b, c"
std::string Join(const std::vector<std::string>& items);

// The nodes that the outputs need, in the model's order. Errors: a name that two nodes make.
llvm::Expected<Nodes> NeededNodes(const FlatNodes& flat, const std::vector<std::string>& outputs);

// Errors: an operator that is not supported, or not in the form that it has at this opset.
llvm::Error CheckSupported(const onnx::NodeProto& node, int64_t models_opset);

// Errors: an input of nodes[position] that nothing before it makes.
llvm::Error CheckInputsDefined(const Importer& importer, const Nodes& nodes, size_t position);

}  // namespace act::onnx_import
