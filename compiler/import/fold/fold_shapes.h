// Folding: operators on known tensors are computed during import. So the subgraphs with which
// exporters compute shapes never reach the graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/import/known/known.h"
#include "compiler/import/known/node_attributes.h"

namespace act::onnx_import {

struct FoldArgs {
  std::vector<const Known*> in;  // null: left out
  const NodeAttributes& attrs;
  size_t outputs = 1;

  const Known* At(size_t i) const { return i < in.size() ? in[i] : nullptr; }
  // Integers that newer opsets take as input `i` and older ones as attribute `name`; nullopt where
  // neither is there.
  std::optional<std::vector<int64_t>> Integers(size_t i, const char* name) const;
};

// The results, one per output; nullopt where they cannot be computed: a value is not a polynomial
// in N, a comparison depends on N, or there are more than kMaxKnownElements elements.
using Folded = std::optional<std::vector<Known>>;
using FoldFn = Folded (*)(const FoldArgs&);

struct FoldEntry {
  std::string_view op;
  int min_inputs, max_inputs;  // max -1: any number
  FoldFn fold;                 // is called with at least min_inputs, and none of these is left out
  // Of inputs from this one on it reads the types alone. Such an input may be data; then it has no elements here.
  size_t types_from = SIZE_MAX;
};
// The fold of ONNX's operator of this name; null where it has none.
const FoldEntry* FindFold(std::string_view op);

// The families, each one file.
const std::vector<FoldEntry>& ElementwiseFolds();
const std::vector<FoldEntry>& StructureFolds();
const std::vector<FoldEntry>& LookupFolds();
const std::vector<FoldEntry>& SequenceFolds();
// All of these families.
const std::vector<const std::vector<FoldEntry>*>& AllFolds();

// Converts an axis that may count from the end to 0..rank-1; nullopt where it is outside.
std::optional<size_t> NormalizeAxis(int64_t axis, size_t rank);

// ONNX's perm, counted from the front: all axes backwards where there is none. Axes may count from
// the end: ONNX does not define these, but TorchScript's exporter writes them. nullopt where it is
// no permutation of the axes.
std::optional<std::vector<int64_t>> ResolvePerm(const NodeAttributes& attrs, size_t rank);

// One axis of ONNX's Slice. Ends are clamped as ONNX does. nullopt where a range depends on N,
// unless it is the whole axis.
struct SliceRange {
  int64_t start = 0;
  Dim extent;
  int64_t step = 1;
};
std::optional<SliceRange> ResolveSlice(const Dim& axis, const Dim& start, const Dim& end, int64_t step);

// The same where the range varies with N: the elements start + i step, i < extent.
struct BatchSlice {
  Dim start, extent;
  int64_t step = 1;
};
// nullopt where start or extent is no polynomial in N, for every N >= 1.
std::optional<BatchSlice> ResolveBatchSlice(const Dim& axis, const Dim& start, const Dim& end, int64_t step);

// ONNX's Reshape: 0 copies an extent (unless allow_zero), one -1 takes what is left.
std::optional<Dims> ResolveReshape(const Dims& from, const Dims& shape, bool allow_zero);

// Sizes of the parts of ONNX's Split along an axis: given, or `outputs` equal ones, the last one
// smaller where `extent` does not divide (Split-18).
std::optional<std::vector<int64_t>> ResolveSplit(const Dim& extent,
                                                 const std::optional<std::vector<int64_t>>& sizes,
                                                 size_t outputs);

}  // namespace act::onnx_import
