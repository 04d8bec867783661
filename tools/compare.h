// actc --compare: several plans of one model, side by side.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/import/import_onnx.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/memory/comparison.h"
#include "tools/compare_request.h"

namespace act {

// Imports and compiles the model for each entry. `compile.level` and `compile.bits` are not read.
llvm::Expected<Comparison> Compare(const std::string& model, const ImportOptions& import,
                                   const CompileOptions& compile, const CompareRequest& request);

}  // namespace act
