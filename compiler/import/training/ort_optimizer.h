// ONNX Runtime's optimizer model, which stands beside a training graph: one optimizer over all parameters.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/ir/imported_model.h"

namespace act::onnx_import {

// Errors: no ONNX model; operators other than AdamWOptimizer, SGDOptimizerV2 and InplaceClipGradNorm, or
// forms of them that no optimizer of ours has.
llvm::Expected<ModelOptimizer> ReadOrtOptimizer(const std::string& path);

}  // namespace act::onnx_import
