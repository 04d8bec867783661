// BatchNormalization, in all forms that files have.
#pragma once

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

llvm::Error ImportBatchNormalization(NodeContext& c);

}  // namespace act::onnx_import
