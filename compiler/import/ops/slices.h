// Ranges of axes, as Slice, Split and lookups by known indices cut them.
#pragma once

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/fold_shapes.h"

namespace act::onnx_import {

// All of each axis.
std::vector<SliceRange> Whole(const Dims& dims);
// Returns x itself where the ranges cover all of it.
llvm::Expected<ValueId> SliceOf(const NodeContext& c, ValueId x, const std::vector<SliceRange>& ranges);

// What ONNX's Slice says about one axis.
struct Cut {
  size_t axis = 0;
  Dim start, end;
  int64_t step = 1;
};
// The cuts of a tensor of this rank. Inputs i.. are the node's starts, ends, axes and steps, which
// older opsets have as attributes.
llvm::Expected<std::vector<Cut>> ReadSlice(const NodeContext& c, size_t rank, size_t i);

}  // namespace act::onnx_import
