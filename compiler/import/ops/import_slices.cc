// Operators that take parts of a tensor along an axis: slices, and splits into several.
#include <algorithm>

#include "compiler/import/core/importer.h"
#include "compiler/import/fold/lookup.h"
#include "compiler/import/ops/slices.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The elements at start + i step of an axis. The start varies with N, so they are looked up.
llvm::Expected<ValueId> TakeAlong(const NodeContext& c, ValueId x, size_t axis, const BatchSlice& slice) {
  TensorType type = c.TypeOf(x);
  type.dims[axis] = slice.extent;
  Known places{{DType::kInt64, Dims(type.dims.size(), Dim(1))}, {}};
  places.type.dims[axis] = slice.extent;
  if (slice.extent.IsFixed() && !FixedDims(places.type.dims)) return c.Fail("takes too many elements");
  ForEachStored(places.type.dims, *StoredDims(places.type.dims), [&](const Position& at, size_t) {
    places.elements.push_back(
        {slice.start + at[axis].integer * Dim(slice.step), 0, SaturatingMul(at[axis].per_index, slice.step)});
  });
  ACT_TRY(const ValueId index, c.importer.Materialize(KnownOperand(std::move(places))));
  return c.builder().AddTyped("Gather", {x, index}, type, Along(axis), c.name());
}

llvm::Error ImportSlice(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const std::vector<Cut> cuts, ReadSlice(c, from.size(), 1));
  ACT_TRY(ValueId x, c.Value(0));
  std::vector<SliceRange> ranges = Whole(from);
  for (const auto& [axis, start, end, step] : cuts) {
    const auto range = ResolveSlice(from[axis], start, end, step);
    if (range) {
      ranges[axis] = *range;
      continue;
    }
    const auto of_batch = ResolveBatchSlice(from[axis], start, end, step);
    if (!of_batch)
      return c.Fail("axis " + std::to_string(axis) + " of " + ToString(c.Type(0)) +
                    " is cut in a way that depends on the batch size");
    ACT_TRY(x, TakeAlong(c, x, axis, *of_batch));
    ranges[axis].extent = of_batch->extent;
  }
  return c.Return(SliceOf(c, x, ranges));
}

// Splits an axis that varies with N into these parts, or into equal ones.
llvm::Error SplitBatch(NodeContext& c, size_t axis) {
  const Dim& extent = c.DimsOf(0)[axis];
  Dims sizes;
  if (c.Has(1)) {
    ACT_TRY(sizes, c.Polynomials(1));
  } else if (const auto part = DivideExact(extent, Dim(static_cast<int64_t>(c.outputs())))) {
    sizes.assign(c.outputs(), *part);
  }
  Dim start;
  std::vector<BatchSlice> parts;
  for (const Dim& size : sizes) {
    parts.push_back({start, size, 1});
    start = start + size;
    if (SignsOf(size).low < 0) return c.Fail("has a part of " + ToString(size) + " elements");
  }
  if (parts.size() != c.outputs() || start != extent)
    return c.Fail("cannot split axis " + std::to_string(axis) + " of " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  for (size_t i = 0; i < parts.size(); ++i) {
    ACT_TRY(const ValueId part, TakeAlong(c, x, axis, parts[i]));
    ACT_CHECK_OK(c.Set(i, part));
  }
  return llvm::Error::success();
}

llvm::Error ImportSplit(NodeContext& c) {
  const Dims& from = c.DimsOf(0);
  ACT_TRY(const size_t axis, c.Axis(c.attrs.Int("axis"), from.size()));
  if (!from[axis].IsFixed() && (c.Has(1) || !c.attrs.Has("split"))) return SplitBatch(c, axis);
  ACT_TRY(const auto given, c.Integers(1, "split"));
  const auto sizes = ResolveSplit(from[axis], given, c.outputs());
  if (!sizes) return c.Fail("cannot split axis " + std::to_string(axis) + " of " + ToString(c.Type(0)));
  ACT_TRY(const ValueId x, c.Value(0));
  int64_t start = 0;
  for (size_t i = 0; i < sizes->size(); ++i) {
    std::vector<SliceRange> ranges = Whole(from);
    ranges[axis] = {start, (*sizes)[i], 1};
    ACT_TRY(const ValueId part, SliceOf(c, x, ranges));
    ACT_CHECK_OK(c.Set(i, part));
    start += (*sizes)[i];
  }
  return llvm::Error::success();
}

}  // namespace

const std::vector<ImportEntry>& SliceImports() {
  static const std::vector<ImportEntry> entries = {
      {"Slice", 1, 5, ImportSlice},
      {"Split", 1, 2, ImportSplit},
      {"SplitTraining", 2, 2, ImportSplit, kMicrosoft},
  };
  return entries;
}

}  // namespace act::onnx_import
