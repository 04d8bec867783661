#include "compiler/import/fold/scatter_places.h"

#include <algorithm>

namespace act::onnx_import {
namespace {

// The indices along an axis of `extent` positions, as places along an axis of `to`. Where the extent
// varies with N, the one element stands for all.
std::optional<AxisPlaces> PlacesOf(const std::vector<Element>& indices, const Dim& extent, const Dim& to) {
  if (!extent.IsFixed()) {
    if (extent != to || indices[0] != Element{.integer = 0, .per_index = 1}) return std::nullopt;
    return AxisPlaces{};
  }
  if (!to.IsFixed()) return std::nullopt;
  AxisPlaces places{false, {}};
  std::vector<bool> taken(static_cast<size_t>(std::min(to.fixed, kMaxKnownElements)), false);
  for (const Element& e : indices) {
    if (!e.integer.IsFixed() || e.per_index != 0) return std::nullopt;
    const int64_t i = e.integer.fixed < 0 ? SaturatingAdd(e.integer.fixed, to.fixed) : e.integer.fixed;
    if (i < 0 || i >= static_cast<int64_t>(taken.size()) || taken[static_cast<size_t>(i)])
      return std::nullopt;
    taken[static_cast<size_t>(i)] = true;
    places.at.push_back(i);
  }
  places.whole = extent == to && std::is_sorted(places.at.begin(), places.at.end());
  if (places.whole) places.at.clear();
  return places;
}

// The index tensor element by element.
struct Indices {
  Dims dims;
  std::vector<int64_t> stored, strides;
  std::vector<Element> elements;
};

std::optional<Indices> IndicesOf(const Known& index) {
  const auto stored = StoredDims(index.type.dims);
  if (!stored || ElementCount(*stored) == 0 || IsFloat(index.type.dtype)) return std::nullopt;
  return Indices{index.type.dims, *stored, StoredStrides(index.type.dims), BroadcastElements(index, *stored)};
}

// The elements along one axis, beginning at `first`.
std::vector<Element> Along(const Indices& indices, size_t axis, size_t first) {
  std::vector<Element> along;
  for (int64_t i = 0; i < indices.stored[axis]; ++i)
    along.push_back(indices.elements[first + static_cast<size_t>(i * indices.strides[axis])]);
  return along;
}

}  // namespace

std::optional<Places> PlacesOfTuples(const Known& index, const Dims& to) {
  const auto indices = IndicesOf(index);
  if (!indices || indices->dims.empty() || !indices->dims.back().IsFixed()) return std::nullopt;
  const size_t outer = indices->dims.size() - 1, length = static_cast<size_t>(indices->dims.back().fixed);
  if (length > to.size()) return std::nullopt;
  // The axis of tuples along which each index changes; `outer` for one that is the same everywhere.
  std::vector<size_t> moves(length, outer);
  Places places(to.size());
  size_t next = 0;
  for (size_t k = 0; k < length; ++k) {
    const Element& first = indices->elements[k];
    for (size_t axis = 0; axis < outer; ++axis) {
      const std::vector<Element> along = Along(*indices, axis, k);
      if (first.per_index == 0 || indices->dims[axis].IsFixed())
        if (std::all_of(along.begin(), along.end(), [&first](const Element& e) { return e == first; }))
          continue;
      if (axis < next || moves[k] != outer) return std::nullopt;
      moves[k] = axis;
    }
    if (moves[k] != outer) next = moves[k] + 1;
    const auto at = moves[k] == outer
                        ? PlacesOf({first}, 1, to[k])
                        : PlacesOf(Along(*indices, moves[k], k), indices->dims[moves[k]], to[k]);
    if (!at) return std::nullopt;
    places[k] = *at;
  }
  for (size_t axis = 0; axis < outer; ++axis)
    if (indices->dims[axis] != Dim(1) && std::count(moves.begin(), moves.end(), axis) == 0)
      return std::nullopt;
  bool box = true;
  ForEachStored(indices->dims, indices->stored, [&](const Position& at, size_t i) {
    const auto k = static_cast<size_t>(at[outer].integer.fixed);
    const int64_t moved = moves[k] == outer ? 0 : at[moves[k]].integer.fixed * indices->strides[moves[k]];
    box = box && indices->elements[i] == indices->elements[static_cast<size_t>(moved) + k];
  });
  return box ? std::optional(places) : std::nullopt;
}

std::optional<Places> PlacesAlong(const Known& index, size_t axis, const Dims& to) {
  const auto indices = IndicesOf(index);
  if (!indices || indices->dims.size() != to.size()) return std::nullopt;
  Places places(to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    if (i == axis || indices->dims[i] == to[i]) continue;
    std::vector<Element> first;
    for (int64_t k = 0; k < indices->stored[i]; ++k) first.push_back({Dim(k)});
    const auto at = PlacesOf(first, indices->dims[i], to[i]);
    if (!at) return std::nullopt;
    places[i] = *at;
  }
  const auto along = PlacesOf(Along(*indices, axis, 0), indices->dims[axis], to[axis]);
  if (!along) return std::nullopt;
  places[axis] = *along;
  bool box = true;
  ForEachStored(indices->dims, indices->stored, [&](const Position& at, size_t i) {
    const int64_t moved = at[axis].integer.fixed * indices->strides[axis];
    box = box && indices->elements[i] == indices->elements[static_cast<size_t>(moved)];
  });
  return box ? std::optional(places) : std::nullopt;
}

Dims PartOf(const Places& places, const Dims& to) {
  Dims part = to;
  for (size_t i = 0; i < to.size(); ++i)
    if (!places[i].whole) part[i] = static_cast<int64_t>(places[i].at.size());
  return part;
}

}  // namespace act::onnx_import
