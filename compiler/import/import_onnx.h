// ONNX in: a training or inference model becomes a graph of our own operators
// (docs/onnx_import.md).
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/import/core/import_options.h"
#include "compiler/ir/imported_model.h"

namespace act {

// Reads the model at `path` and imports the nodes that its loss needs. Every value gets a type
// whose dims are polynomials in N. Weights are mapped or moved, not copied. Errors name the file
// and the node, tensor or flag.
llvm::Expected<ImportResult> ImportOnnx(const std::string& path, const ImportOptions& options);

}  // namespace act
