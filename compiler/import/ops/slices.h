// Ranges of axes, as Slice, Split and lookups by known indices cut them.
#pragma once

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/fold_shapes.h"

namespace act::onnx_import {

// All of each axis.
std::vector<SliceRange> Whole(const Dims& dims);
// Returns x itself where the ranges cover all of it.
llvm::Expected<ValueId> SliceOf(const NodeContext& c, ValueId x, const std::vector<SliceRange>& ranges);

}  // namespace act::onnx_import
