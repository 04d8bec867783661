#include "compiler/import/ops/gather_index.h"

#include <algorithm>

#include "compiler/import/ops/strided_view.h"

namespace act::onnx_import {

Dims Range(const Dims& dims, size_t begin, size_t end) {
  return {dims.begin() + static_cast<std::ptrdiff_t>(begin), dims.begin() + static_cast<std::ptrdiff_t>(end)};
}

Dims Joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dim Product(const Dims& dims) {
  Dim product(1);
  for (const Dim& dim : dims) product = product * dim;
  return product;
}

namespace {

// Whether one of the known indices may be that of a table's row for padding. The gradient of a slice would train it.
bool MayBePadding(const Known& indices, const Dim& rows, const Attributes& attrs) {
  if (!attrs.Has("padding_index")) return false;
  const int64_t padding = attrs.Int("padding_index");
  return std::any_of(indices.elements.begin(), indices.elements.end(), [&](const Element& index) {
    return index.per_index != 0 || !index.integer.IsFixed() || !rows.IsFixed() ||
           index.integer.fixed == padding || index.integer.fixed == padding - rows.fixed;
  });
}

}  // namespace

llvm::Expected<ValueId> Gather(const NodeContext& c, ValueId x, size_t axis, const Operand& indices,
                               Attributes attrs) {
  if (indices.known && !MayBePadding(*indices.known, c.TypeOf(x).dims[axis], attrs)) {
    ACT_TRY(const std::optional<ValueId> view, StridedView(c, x, axis, *indices.known));
    if (view) return *view;
  }
  ACT_TRY(const ValueId given, c.importer.Materialize(indices));
  TensorType type = c.TypeOf(x);
  const Dims from = type.dims;
  type.dims[axis] = indices.type.Elements();
  Dims index_dims(from.size(), Dim(1));
  index_dims[axis] = type.dims[axis];
  ACT_TRY(const ValueId index, c.Reshape(given, index_dims));
  ACT_TRY(const ValueId y, c.builder().AddTyped("Gather", {x, index}, type, std::move(attrs), c.name()));
  return c.Reshape(
      y, Joined(Joined(Range(from, 0, axis), indices.type.dims), Range(from, axis + 1, from.size())));
}

llvm::Expected<ValueId> UnexpandedIndex(const NodeContext& c, size_t i, size_t axis) {
  ACT_TRY(const ValueId index, c.Value(i));
  const std::vector<Node>& nodes = c.builder().graph().nodes;
  const auto expand = std::find_if(nodes.rbegin(), nodes.rend(), [index](const Node& n) {
    return (n.op == "Expand" || (n.op == "Integer" && n.attrs.String("op") == "expand")) &&
           n.outputs[0] == index;
  });
  if (expand == nodes.rend()) return index;
  Dims dims = c.TypeOf(expand->inputs[0]).dims;
  dims.insert(dims.begin(), c.DimsOf(i).size() - dims.size(), Dim(1));
  if (dims[axis] != c.DimsOf(i)[axis]) return index;
  return c.Reshape(expand->inputs[0], dims);
}

llvm::Expected<Tuples> TuplesOf(const NodeContext& c, const Dims& from, size_t i, int64_t batch_dims) {
  const Dims& index = c.DimsOf(i);
  if (index.empty() || !index.back().IsFixed()) return c.Fail("the indices are no tuples of a fixed length");
  Tuples t;
  const int64_t rank = static_cast<int64_t>(from.size()), tuple = index.back().fixed;
  if (batch_dims < 0 || batch_dims >= c.Type(i).rank() || tuple < 1 || tuple > rank - batch_dims)
    return c.Fail("tuples of " + std::to_string(tuple) + " indices after " + std::to_string(batch_dims) +
                  " axes do not fit " + ToString(from));
  t.batch_dims = static_cast<size_t>(batch_dims);
  const size_t end = t.batch_dims + static_cast<size_t>(tuple);
  t.batch = Range(from, 0, t.batch_dims);
  if (t.batch != Range(index, 0, t.batch_dims)) return c.Fail("the first axes of data and indices differ");
  t.outer = Range(index, t.batch_dims, index.size() - 1);
  t.slice = Range(from, end, from.size());
  t.counted = Range(from, t.batch_dims, end);
  t.extent = Product(t.counted);
  return t;
}

llvm::Expected<ValueId> FlatIndexOf(const NodeContext& c, size_t i, const Tuples& t) {
  ACT_TRY(ValueId index, c.Value(i));
  if (t.counted.size() > 1) {
    std::vector<int64_t> extents;
    for (const Dim& dim : t.counted)
      extents.insert(extents.end(), {dim.fixed, dim.per_batch, dim.per_batch2});
    Attributes attrs;
    attrs.Set("extents", extents);
    ACT_TRY(index, c.Emit("FlatIndex", {index}, attrs));
  }
  return c.Reshape(index, {Product(t.batch), Product(t.outer), 1});
}

}  // namespace act::onnx_import
