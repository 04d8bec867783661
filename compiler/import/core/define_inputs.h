// The model's inputs, and which of their axes is the batch.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/import/core/import_options.h"
#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// Defines the inputs and the symbols of their axes, and returns the size of a fixed batch; nullopt where any
// size may be run. Errors: an input without a name or of a type that we do not have; an axis that is neither
// the batch nor given by --dim; a --dim that names no axis; another --batch than the fixed one.
llvm::Expected<std::optional<int64_t>> DefineInputs(Importer& importer,
                                                    const std::vector<const onnx::ValueInfoProto*>& inputs,
                                                    const ImportOptions& options);

}  // namespace act::onnx_import
