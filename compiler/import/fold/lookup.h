// Known tensors whose elements are those of another one, in other places.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include "compiler/import/fold/fold_shapes.h"

namespace act::onnx_import {

// A position along each axis. Along the axis that varies with N it stands for all positions at once: 0 + 1 *
// position.
using Position = std::vector<Element>;

// The tensor of `dims` whose element at `to` is x's at the position that `source` writes to `from` (as many
// entries as x has axes; negative ones count from the end). nullopt where `source` returns false, or where a
// position is outside x or unknown.
Folded Lookup(const Known& x, const Dims& dims,
              llvm::function_ref<bool(const Position& to, Position& from)> source);

// The position counted from the front, where 0 <= position < extent holds for all that it stands for; nullopt
// where that is not sure. `range`: the extent of the axis of positions that varies with N.
std::optional<Element> PositionInside(Element at, const Dim& extent, const Dim& range);

// Row-major strides over the stored elements.
std::vector<int64_t> StoredStrides(const Dims& dims);

// Calls visit(position, linear index) for every stored element of a tensor.
void ForEachStored(const Dims& dims, const std::vector<int64_t>& stored,
                   llvm::function_ref<void(const Position&, size_t)> visit);

}  // namespace act::onnx_import
