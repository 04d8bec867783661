#include "compiler/import/ops/scatter_box.h"

#include <cmath>

#include "compiler/import/ops/slices.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The places are neighbours: one slice.
bool IsRun(const AxisPlaces& places) {
  return !places.at.empty() &&
         places.at.back() - places.at.front() + 1 == static_cast<int64_t>(places.at.size()) &&
         std::is_sorted(places.at.begin(), places.at.end());
}

llvm::Expected<ValueId> IndexAlong(const NodeContext& c, size_t rank, size_t axis, const Ints& at) {
  Known index{{DType::kInt64, Dims(rank, Dim(1))}, {}};
  index.type.dims[axis] = static_cast<int64_t>(at.size());
  for (const int64_t i : at) index.elements.push_back({Dim(i)});
  return c.importer.Materialize(KnownOperand(std::move(index)));
}

// `part` at these places of an axis; the rest is x, or 0 where x is left out.
llvm::Expected<ValueId> ScatterAlong(const NodeContext& c, ValueId part, size_t axis, const Ints& at,
                                     const TensorType& whole, ValueId x) {
  ACT_TRY(const ValueId index, IndexAlong(c, whole.dims.size(), axis, at));
  std::vector<ValueId> inputs{part, index};
  if (x != kNoValue) inputs.push_back(x);
  Attributes attrs;
  attrs.Set("axis", static_cast<int64_t>(axis));
  attrs.Set("reduction", std::string("none"));
  return c.builder().AddTyped("Scatter", std::move(inputs), whole, attrs, c.name());
}

llvm::Expected<ValueId> SliceAlong(const NodeContext& c, ValueId x, size_t axis, int64_t start, int64_t end) {
  std::vector<SliceRange> ranges = Whole(c.TypeOf(x).dims);
  ranges[axis] = {start, end - start, 1};
  return SliceOf(c, x, ranges);
}

// x at these places of an axis.
llvm::Expected<ValueId> TakeAlong(const NodeContext& c, ValueId x, size_t axis, const AxisPlaces& places) {
  if (IsRun(places)) return SliceAlong(c, x, axis, places.at.front(), places.at.back() + 1);
  TensorType type = c.TypeOf(x);
  ACT_TRY(const ValueId index, IndexAlong(c, type.dims.size(), axis, places.at));
  type.dims[axis] = static_cast<int64_t>(places.at.size());
  return c.builder().AddTyped("Gather", {x, index}, type, Along(axis), c.name());
}

// x with `part` in the places of the axes from position `next` of `axes` on.
llvm::Expected<ValueId> PutInto(const NodeContext& c, ValueId x, ValueId part, const Places& places,
                                const std::vector<size_t>& axes, size_t next) {
  if (next == axes.size()) return part;
  const size_t axis = axes[next];
  const AxisPlaces& at = places[axis];
  if (next + 1 < axes.size()) {
    ACT_TRY(const ValueId inner, TakeAlong(c, x, axis, at));
    ACT_TRY(part, PutInto(c, inner, part, places, axes, next + 1));
  }
  if (!IsRun(at)) return ScatterAlong(c, part, axis, at.at, c.TypeOf(x), x);
  const int64_t end = c.TypeOf(x).dims[axis].fixed;
  std::vector<ValueId> parts;
  if (at.at.front() > 0) {
    ACT_TRY(const ValueId before, SliceAlong(c, x, axis, 0, at.at.front()));
    parts.push_back(before);
  }
  parts.push_back(part);
  if (at.at.back() + 1 < end) {
    ACT_TRY(const ValueId after, SliceAlong(c, x, axis, at.at.back() + 1, end));
    parts.push_back(after);
  }
  return c.Emit("Concat", std::move(parts), Along(axis));
}

// The updates in a tensor of one number.
llvm::Expected<ValueId> PutIntoFilled(const NodeContext& c, ValueId part, const Places& places,
                                      const std::vector<size_t>& axes, double fill) {
  const TensorType whole = c.Type(0);
  Ints pads(2 * whole.dims.size(), 0);
  for (const size_t axis : axes) {
    if (IsRun(places[axis])) {
      pads[axis] = places[axis].at.front();
      pads[axis + whole.dims.size()] = whole.dims[axis].fixed - places[axis].at.back() - 1;
      continue;
    }
    TensorType type = c.TypeOf(part);
    type.dims[axis] = whole.dims[axis];
    ValueId x = kNoValue;
    if (fill != 0) {
      ACT_TRY(x, c.importer.Materialize(
                     KnownOperand({{c.Type(0).dtype, type.dims}, {c.In(0).known->elements[0]}})));
    }
    ACT_TRY(part, ScatterAlong(c, part, axis, places[axis].at, type, x));
  }
  if (c.TypeOf(part).dims == whole.dims) return part;
  Attributes attrs;
  attrs.Set("pads", pads);
  attrs.Set("mode", std::string("constant"));
  attrs.Set("value", fill);
  return c.Emit("Pad", {part}, attrs);
}

}  // namespace

llvm::Expected<ValueId> ScatterBox(const NodeContext& c, const Places& places) {
  constexpr double kExact = 1 << 24;  // Pad keeps the number as a float32
  ACT_TRY(const ValueId updates, c.Value(2));
  ACT_TRY(const ValueId part, c.Reshape(updates, PartOf(places, c.DimsOf(0))));
  std::vector<size_t> axes;
  for (size_t i = 0; i < places.size(); ++i)
    if (!places[i].whole) axes.push_back(i);
  const auto fill = c.In(0).known && c.In(0).known->IsSplat() ? c.Number(0) : std::nullopt;
  if (fill && (IsFloat(c.Type(0).dtype) || std::abs(*fill) <= kExact))
    return PutIntoFilled(c, part, places, axes, *fill);
  if (axes.empty()) return part;
  ACT_TRY(const ValueId x, c.Value(0));
  return PutInto(c, x, part, places, axes, 0);
}

}  // namespace act::onnx_import
