#include "compiler/import/ops/strided_view.h"

#include <algorithm>

#include "compiler/import/fold/lookup.h"
#include "compiler/import/ops/slices.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;
using MaybeValue = llvm::Expected<std::optional<ValueId>>;

constexpr size_t kMaxRuns = 4;

// base + strides . position
struct Line {
  int64_t base = 0;
  Ints strides;  // 0 along axes of extent 1
};

std::optional<Line> FitLine(const Known& index) {
  const auto stored = StoredDims(index.type.dims);
  if (!stored || ElementCount(*stored) == 0) return std::nullopt;
  const std::vector<Element> elements = BroadcastElements(index, *stored);
  const auto varying = VaryingAxis(index.type.dims);
  const Ints steps = StoredStrides(index.type.dims);
  Line line{elements[0].integer.fixed, Ints(stored->size(), 0)};
  for (size_t i = 0; i < stored->size(); ++i)
    if ((*stored)[i] > 1)
      line.strides[i] = SaturatingAdd(elements[static_cast<size_t>(steps[i])].integer.fixed, -line.base);
  if (varying) line.strides[*varying] = elements[0].per_index;
  bool fits = true;
  ForEachStored(index.type.dims, *stored, [&](const Position& at, size_t i) {
    int64_t expected = line.base;
    for (size_t k = 0; k < at.size(); ++k)
      expected = SaturatingAdd(expected, SaturatingMul(line.strides[k], at[k].integer.fixed));
    fits = fits && elements[i].integer == Dim(expected) && elements[i].per_index == elements[0].per_index;
  });
  return fits ? std::optional(line) : std::nullopt;
}

// Indices below 0 count from the end; those of fixed value are checked.
llvm::Expected<Known> FromTheFront(const NodeContext& c, Known index, const Dim& axis) {
  if (!axis.IsFixed()) return index;
  for (Element& e : index.elements) {
    if (!e.integer.IsFixed() || e.per_index != 0) continue;
    const int64_t i = e.integer.fixed;
    if (i < -axis.fixed || i >= axis.fixed)
      return c.Fail("index " + std::to_string(i) + " is outside an axis of " + ToString(axis));
    if (i < 0) e.integer = Dim(i + axis.fixed);
  }
  return index;
}

// Slices the axes from `first` on; the others stay whole.
llvm::Expected<ValueId> SliceAxes(const NodeContext& c, ValueId x, size_t first,
                                  const std::vector<SliceRange>& ranges) {
  std::vector<SliceRange> all = Whole(c.TypeOf(x).dims);
  std::copy(ranges.begin(), ranges.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
  return SliceOf(c, x, all);
}

Dims Joined(const Dims& from, size_t axis, const Dims& middle) {
  Dims dims(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), middle.begin(), middle.end());
  dims.insert(dims.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
  return dims;
}

// Reshapes x's axis to the digits of a number system given by the strides, slices the digits, and
// puts them into the order of the index's axes.
MaybeValue ViewOfLine(const NodeContext& c, ValueId x, size_t axis, const Dims& index_dims,
                      const Line& line) {
  const Dims from = c.TypeOf(x).dims;
  std::vector<size_t> order;  // the index's axes along which it moves, the largest stride first
  for (size_t i = 0; i < index_dims.size(); ++i)
    if (line.strides[i] != 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&line](size_t a, size_t b) { return line.strides[a] > line.strides[b]; });
  Dims kept(index_dims.size(), Dim(1));  // the index's dims before they are expanded
  for (const size_t i : order) kept[i] = index_dims[i];

  std::vector<SliceRange> digits;
  Dims extents;
  if (order.size() <= 1 && from[axis].IsFixed() && kept == Dims(kept.size(), Dim(1))) {
    digits = {{line.base, Dim(1), 1}};
    extents = {from[axis]};
    if (line.base < 0 || line.base >= from[axis].fixed) return std::optional<ValueId>();
  } else if (order.size() == 1 && from[axis].IsFixed() && index_dims[order[0]].IsFixed()) {
    digits = {{line.base, index_dims[order[0]], line.strides[order[0]]}};
    extents = {from[axis]};
  } else {
    Dim left = from[axis];
    int64_t base = line.base;
    for (const size_t i : order) {
      const int64_t stride = line.strides[i];
      if (stride <= 0 || base < 0) return std::optional<ValueId>();
      const auto digit = DivideExact(left, Dim(stride));
      if (!digit) return std::optional<ValueId>();
      const SliceRange range{base / stride, index_dims[i], 1};
      const bool whole = range.start == 0 && range.extent == *digit;
      if (!whole &&
          (!digit->IsFixed() || !range.extent.IsFixed() || range.start + range.extent.fixed > digit->fixed))
        return std::optional<ValueId>();
      digits.push_back(range);
      extents.push_back(*digit);
      left = Dim(stride);
      base %= stride;
    }
    if (!left.IsFixed() || base >= left.fixed || base < 0) return std::optional<ValueId>();
    digits.push_back({base, Dim(1), 1});
    extents.push_back(left);
  }
  ACT_TRY(ValueId y, c.Reshape(x, Joined(from, axis, extents)));
  ACT_TRY(y, SliceAxes(c, y, axis, digits));
  Dims moved;  // after the slices, without the last digit, which has extent 1
  for (const size_t i : order) moved.push_back(index_dims[i]);
  ACT_TRY(y, c.Reshape(y, Joined(from, axis, moved)));
  Ints perm;
  for (size_t i = 0; i < axis; ++i) perm.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < index_dims.size(); ++i) {
    const auto place = std::find(order.begin(), order.end(), i);
    if (place != order.end()) perm.push_back(static_cast<int64_t>(axis) + (place - order.begin()));
  }
  for (size_t i = perm.size(); i < c.TypeOf(y).dims.size(); ++i) perm.push_back(static_cast<int64_t>(i));
  if (!std::is_sorted(perm.begin(), perm.end())) {
    ACT_TRY(y, c.Transpose(y, perm));
  }
  ACT_TRY(y, c.Reshape(y, Joined(from, axis, kept)));
  ACT_TRY(y, c.builder().Expand(y, Joined(from, axis, index_dims), c.name()));
  return std::optional(y);
}

// One axis of indices that consist of a few runs of neighbours. Each run is a slice.
MaybeValue ViewOfRuns(const NodeContext& c, ValueId x, size_t axis, const Known& index) {
  const Dims from = c.TypeOf(x).dims;
  const auto values = AsIntegers(index);
  if (!values || !from[axis].IsFixed()) return std::optional<ValueId>();
  std::vector<SliceRange> runs;
  for (const int64_t i : *values) {
    if (!runs.empty() && i == runs.back().start + runs.back().extent.fixed)
      ++runs.back().extent.fixed;
    else
      runs.push_back({i, Dim(1), 1});
    if (runs.size() > kMaxRuns) return std::optional<ValueId>();
  }
  if (runs.size() < 2 || 2 * runs.size() > values->size()) return std::optional<ValueId>();
  std::vector<ValueId> parts;
  for (const SliceRange& run : runs) {
    ACT_TRY(const ValueId part, SliceAxes(c, x, axis, {run}));
    parts.push_back(part);
  }
  ACT_TRY(ValueId y, c.Emit("Concat", std::move(parts), Along(axis)));
  ACT_TRY(y, c.Reshape(y, Joined(from, axis, index.type.dims)));
  return std::optional(y);
}

}  // namespace

MaybeValue StridedView(const NodeContext& c, ValueId x, size_t axis, const Known& given) {
  ACT_TRY(const Known index, FromTheFront(c, given, c.TypeOf(x).dims[axis]));
  if (const auto line = FitLine(index)) {
    ACT_TRY(const std::optional<ValueId> view, ViewOfLine(c, x, axis, index.type.dims, *line));
    if (view) return view;
  }
  return ViewOfRuns(c, x, axis, index);
}

std::optional<Known> LinearIndex(const Known& index, const Dims& dims) {
  const Dims& rows = index.type.dims;
  if (rows.empty() || rows.back() != Dim(static_cast<int64_t>(dims.size()))) return std::nullopt;
  const auto stored = StoredDims(rows);
  if (!stored) return std::nullopt;
  const auto varying = VaryingAxis(rows);
  const Dim range = varying ? rows[*varying] : Dim(1);
  const std::vector<Element> elements = BroadcastElements(index, *stored);
  Known linear{{DType::kInt64, Dims(rows.begin(), rows.end() - 1)}, {}};
  for (size_t first = 0; first < elements.size(); first += dims.size()) {
    Element sum;
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto at = PositionInside(elements[first + i], dims[i], range);
      if (!at || (!dims[i].IsFixed() && i > 0)) return std::nullopt;
      // Horner's rule; all extents after the first are fixed.
      if (i > 0) sum = {sum.integer * dims[i], 0, SaturatingMul(sum.per_index, dims[i].fixed)};
      sum = {sum.integer + at->integer, 0, SaturatingAdd(sum.per_index, at->per_index)};
    }
    linear.elements.push_back(sum);
  }
  return linear;
}

}  // namespace act::onnx_import
