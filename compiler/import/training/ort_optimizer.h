// ONNX Runtime's optimizer model, a file beside a training graph: one optimizer for all parameters.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/ir/imported_model.h"

namespace act::onnx_import {

// Errors: the file is not an ONNX model; it has operators other than AdamWOptimizer, SGDOptimizerV2
// and InplaceClipGradNorm, or forms of these that none of our optimizers has.
llvm::Expected<ModelOptimizer> ReadOrtOptimizer(const std::string& path);

}  // namespace act::onnx_import
