// Random numbers of which a model may make dropout masks.
#pragma once

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// Where the node adds a constant to random numbers that are no value yet: defines its result as the
// same draw, shifted. Returns whether it did.
llvm::Expected<bool> ShiftDraw(const NodeContext& context);

// Where the node compares such numbers with a constant, and its result may be the mask of a dropout: defines it as
// that mask. Returns whether it did.
llvm::Expected<bool> MaskOfDraw(const NodeContext& context);

}  // namespace act::onnx_import
