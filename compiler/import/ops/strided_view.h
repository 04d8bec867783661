// Gathers whose indices are regular and known when compiling. They become views and slices instead
// of lookups.
#pragma once

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// ONNX's Gather: the axes of `index` replace the axis, and the element at (.., i.., ..) is that of
// x at (.., index[i..], ..). Indices that are linear in the position along each of their axes
// become a Reshape, a Slice and a Transpose, also where an axis varies with N. Indices of a few
// runs (a roll) become Slices that are joined. nullopt where the indices are neither. Errors: an
// index outside the axis.
llvm::Expected<std::optional<ValueId>> StridedView(const NodeContext& c, ValueId x, size_t axis,
                                                   const Known& index);

// GatherND: converts tuples of positions, the last axis of `index`, to row-major positions in a
// tensor whose first axes are `dims`. nullopt where a position is unknown or outside.
std::optional<Known> LinearIndex(const Known& index, const Dims& dims);

}  // namespace act::onnx_import
