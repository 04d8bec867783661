// Optimizers of ONNX (domain ai.onnx.preview.training) as ours.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/import/core/importer.h"
#include "compiler/ir/imported_model.h"

namespace act::onnx_import {

// The optimizers of ONNX: operands are the rate R, the count T, then n parameters, their gradients
// and each of their states; results the new parameters and states.
struct OptimizerOp {
  const char* op;
  int states;
  llvm::Expected<ModelOptimizer> (*read)(const onnx::NodeProto& node, const NodeAttributes& attrs);

  // What the node's attributes say. Errors: an attribute that is missing, or of another type or
  // value than ONNX defines.
  llvm::Expected<ModelOptimizer> Read(const onnx::NodeProto& node) const;
};

// Null where the node is no optimizer.
const OptimizerOp* FindOptimizerOp(const onnx::NodeProto& node);

}  // namespace act::onnx_import
