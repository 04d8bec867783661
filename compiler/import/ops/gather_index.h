// Indices of lookups, scatters and their gradients, in the form that our Gather and Scatter take.
#pragma once

#include "compiler/import/core/importer.h"

namespace act::onnx_import {

// Axes begin..end-1.
Dims Range(const Dims& dims, size_t begin, size_t end);
Dims Joined(Dims a, const Dims& b);
Dim Product(const Dims& dims);

// ONNX's Gather: the axes of the indices replace the axis of x that they select from. Our operator has
// one axis of indices, which broadcasts over the others.
llvm::Expected<ValueId> Gather(const NodeContext& c, ValueId x, size_t axis, const Operand& indices,
                               Attributes attrs);

// Input i as an index of ours. Exporters expand one index to all elements of a row. What the Expand
// reads is then enough.
llvm::Expected<ValueId> UnexpandedIndex(const NodeContext& c, size_t i, size_t axis);

// GatherND and ScatterND. A tuple of indices names a slice. The axes that the tuple indexes become
// one axis.
struct Tuples {
  size_t batch_dims = 0;
  Dims batch, outer, slice;  // axes before the tuples', of the tuples, and after
  Dim extent;                // of `counted` as one axis
  Dims counted;              // the axes that the tuples index
  Dims Whole() const { return {Product(batch), extent, Product(slice)}; }
  Dims Part() const { return {Product(batch), Product(outer), Product(slice)}; }
};

// Input i names slices of a tensor with the dims `from`.
llvm::Expected<Tuples> TuplesOf(const NodeContext& c, const Dims& from, size_t i, int64_t batch_dims);

// The tuples, input i, as indices of the joined axis, in the rank of ours: [batch, tuples, 1].
llvm::Expected<ValueId> FlatIndexOf(const NodeContext& c, size_t i, const Tuples& t);

}  // namespace act::onnx_import
