// Gathers whose indices are known when compiling and regular: they are views and slices, not lookups.
#pragma once

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// x with the axis replaced by the axes of `index`, as ONNX's Gather: the element at (.., i.., ..) is x's at
// (.., index[i..], ..). Indices that are a line in the position along each of their axes become a Reshape, a
// Slice and a Transpose, also where an axis varies with N; indices of a few runs (a roll) become Slices that
// are joined. nullopt where the indices are neither. Errors: an index outside the axis.
llvm::Expected<std::optional<ValueId>> StridedView(const NodeContext& c, ValueId x, size_t axis,
                                                   const Known& index);

// Row-major positions in a tensor that begins with the axes `dims` from positions along each of them, which
// are the last axis of `index` (GatherND). nullopt where a position is outside or unknown.
std::optional<Known> LinearIndex(const Known& index, const Dims& dims);

}  // namespace act::onnx_import
