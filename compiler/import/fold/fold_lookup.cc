// Gather, Scatter and related operators on known tensors.
#include <algorithm>

#include "compiler/import/fold/scatter_places.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The stored elements of `index` after broadcasting it to the dims `to`.
const Element& ElementAt(const Known& index, const Ints& strides, const Position& at, size_t first) {
  if (index.IsSplat()) return index.elements[0];
  size_t linear = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    linear += static_cast<size_t>(at[first + i].integer.fixed * strides[i]);
  return index.elements[linear];
}

Folded Gather(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || IsFloat(args.At(1)->type.dtype)) return std::nullopt;
  const Known &x = *args.At(0), &index = *args.At(1);
  const Dims& from = x.type.dims;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), from.size());
  if (!axis) return std::nullopt;
  const auto begin = static_cast<std::ptrdiff_t>(*axis);
  const size_t middle = index.type.dims.size();
  Dims dims(from.begin(), from.begin() + begin);
  dims.insert(dims.end(), index.type.dims.begin(), index.type.dims.end());
  dims.insert(dims.end(), from.begin() + begin + 1, from.end());
  const Ints strides = StoredStrides(index.type.dims);
  return Lookup(x, dims, [&](const Position& to, Position& source) {
    for (size_t i = 0; i < *axis; ++i) source[i] = to[i];
    source[*axis] = ElementAt(index, strides, to, *axis);
    for (size_t i = *axis + 1; i < source.size(); ++i) source[i] = to[i - 1 + middle];
    return true;
  });
}

Folded GatherElements(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || IsFloat(args.At(1)->type.dtype)) return std::nullopt;
  const Known &x = *args.At(0), &index = *args.At(1);
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), x.type.dims.size());
  if (!axis || index.type.dims.size() != x.type.dims.size()) return std::nullopt;
  const Ints strides = StoredStrides(index.type.dims);
  return Lookup(x, index.type.dims, [&](const Position& to, Position& source) {
    source = to;
    source[*axis] = ElementAt(index, strides, to, 0);
    return true;
  });
}

// values[1] where the position along a new axis is the index, else values[0]. TorchScript's exporter
// writes the repeats of repeat_interleave so.
Folded OneHot(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || !args.At(2) || IsFloat(args.At(0)->type.dtype)) return std::nullopt;
  const Known& index = *args.At(0);
  const auto depth = AsIntegers(*args.At(1));
  const auto axis = NormalizeAxis(args.attrs.Int("axis", -1), index.type.dims.size() + 1);
  if (!depth || depth->size() != 1 || (*depth)[0] < 1 || !axis) return std::nullopt;
  if (args.At(2)->type.Elements() != Dim(2)) return std::nullopt;
  const auto values = BroadcastElements(*args.At(2), {2});
  const auto along = static_cast<std::ptrdiff_t>(*axis);
  Dims dims = index.type.dims;
  dims.insert(dims.begin() + along, Dim((*depth)[0]));
  const auto stored = StoredDims(dims);
  if (!stored) return std::nullopt;
  Known hot{{args.At(2)->type.dtype, dims}, {}};
  const Ints strides = StoredStrides(index.type.dims);
  bool known = true;
  ForEachStored(dims, *stored, [&](const Position& to, size_t) {
    Position row = to;
    row.erase(row.begin() + along);
    const Element& at = ElementAt(index, strides, row, 0);
    known = known && at.integer.IsFixed() && at.per_index == 0 && !at.counted;
    const int64_t place = at.integer.fixed < 0 ? at.integer.fixed + (*depth)[0] : at.integer.fixed;
    hot.elements.push_back(values[place == to[*axis].integer.fixed ? 1 : 0]);
  });
  if (!known) return std::nullopt;
  return std::vector<Known>{std::move(hot)};
}

// The last axis of `index` holds positions along the axes of x after the first batch_dims ones.
Folded GatherND(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || IsFloat(args.At(1)->type.dtype)) return std::nullopt;
  const Known &x = *args.At(0), &index = *args.At(1);
  const Dims &from = x.type.dims, &rows = index.type.dims;
  const int64_t batch_dims = args.attrs.Int("batch_dims");
  if (rows.empty() || !rows.back().IsFixed() || batch_dims < 0) return std::nullopt;
  const auto batch = static_cast<size_t>(batch_dims), depth = static_cast<size_t>(rows.back().fixed);
  if (batch >= rows.size() || depth > from.size() || batch + depth > from.size()) return std::nullopt;
  for (size_t i = 0; i < batch; ++i)
    if (from[i] != rows[i]) return std::nullopt;
  Dims dims(rows.begin(), rows.end() - 1);
  const size_t leading = dims.size();
  dims.insert(dims.end(), from.begin() + static_cast<std::ptrdiff_t>(batch + depth), from.end());
  const Ints strides = StoredStrides(rows);
  return Lookup(x, dims, [&](const Position& to, Position& source) {
    Position row(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(leading));
    row.push_back({});
    for (size_t i = 0; i < batch; ++i) source[i] = to[i];
    for (size_t i = 0; i < depth; ++i) {
      row.back().integer = Dim(static_cast<int64_t>(i));
      source[batch + i] = ElementAt(index, strides, row, 0);
    }
    for (size_t i = batch + depth; i < source.size(); ++i) source[i] = to[i - batch - depth + leading];
    return true;
  });
}

// The element that a scatter stores where `old` was.
std::optional<Element> Combine(const std::string& reduction, DType dtype, const Element& old,
                               const Element& update) {
  if (reduction == "none") return update;
  if (!old.integer.IsFixed() || !update.integer.IsFixed()) return std::nullopt;
  const double a = old.real, b = update.real;
  const int64_t i = old.integer.fixed, k = update.integer.fixed;
  if (reduction == "add") return Element{SaturatingAdd(i, k), RealElement(dtype, a + b).real};
  if (reduction == "mul") return Element{SaturatingMul(i, k), RealElement(dtype, a * b).real};
  if (reduction == "max") return Element{std::max(i, k), std::max(a, b)};
  if (reduction == "min") return Element{std::min(i, k), std::min(a, b)};
  return std::nullopt;
}

// A copy of input 0 that takes elements of input 2 where input 1 says. All extents are fixed.
class Scatter {
 public:
  Scatter(const FoldArgs& args) : reduction_(args.attrs.String("reduction", "none")) {
    for (size_t i = 0; i < 3; ++i)
      if (!args.At(i) || !FixedDims(args.At(i)->type.dims)) return;
    const auto index = AsIntegers(*args.At(1));
    if (!index || args.At(2)->type.dtype != args.At(0)->type.dtype) return;
    result = *args.At(0);
    result.elements = BroadcastElements(result, *FixedDims(result.type.dims));
    indices = *index;
    updates_ = BroadcastElements(*args.At(2), *FixedDims(args.At(2)->type.dims));
    ok = true;
  }

  void Put(int64_t place, size_t update) {
    Element& element = result.elements[static_cast<size_t>(place)];
    const auto combined = Combine(reduction_, result.type.dtype, element, updates_[update]);
    ok = ok && combined;
    if (combined) element = *combined;
  }

  bool ok = false;
  Known result;
  Ints indices;

 private:
  std::string reduction_;
  std::vector<Element> updates_;
};

bool Normalize(int64_t& index, int64_t extent) {
  if (index < 0) index += extent;
  return index >= 0 && index < extent;
}

// A scatter into a box, whatever axis varies with N: its positions share the stored elements.
Folded ScatterBox(const FoldArgs& args, const std::optional<Places>& places) {
  const Known &x = *args.At(0), &updates = *args.At(2);
  if (!places || x.type.dtype != updates.type.dtype) return std::nullopt;
  const Dims part = PartOf(*places, x.type.dims);
  const auto stored = StoredDims(x.type.dims), from = StoredDims(updates.type.dims);
  if (!stored || !from || !StoredDims(part)) return std::nullopt;
  const std::vector<Element> values = BroadcastElements(updates, *from);
  if (static_cast<int64_t>(values.size()) != ElementCount(*StoredDims(part))) return std::nullopt;
  Known result{x.type, BroadcastElements(x, *stored)};
  const std::string reduction = args.attrs.String("reduction", "none");
  const Ints strides = StoredStrides(x.type.dims);
  bool ok = true;
  ForEachStored(part, *StoredDims(part), [&](const Position& at, size_t i) {
    int64_t place = 0;
    for (size_t k = 0; k < at.size(); ++k) {
      const auto position = static_cast<size_t>(at[k].integer.fixed);
      place += strides[k] * ((*places)[k].whole ? at[k].integer.fixed : (*places)[k].at[position]);
    }
    Element& element = result.elements[static_cast<size_t>(place)];
    const auto combined = Combine(reduction, x.type.dtype, element, values[i]);
    ok = ok && combined;
    if (combined) element = *combined;
  });
  return ok ? std::optional(std::vector<Known>{std::move(result)}) : std::nullopt;
}

bool HasThree(const FoldArgs& args) { return args.At(0) && args.At(1) && args.At(2); }

Folded ScatterElements(const FoldArgs& args) {
  if (!HasThree(args)) return std::nullopt;
  Scatter scatter(args);
  if (!scatter.ok) {
    const Dims& dims = args.At(0)->type.dims;
    const auto along = NormalizeAxis(args.attrs.Int("axis"), dims.size());
    if (!along || args.At(1)->type.dims != args.At(2)->type.dims) return std::nullopt;
    return ScatterBox(args, PlacesAlong(*args.At(1), *along, dims));
  }
  const Dims &to = scatter.result.type.dims, &from = args.At(2)->type.dims;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), to.size());
  if (!axis || from != args.At(1)->type.dims || from.size() != to.size()) return std::nullopt;
  for (size_t i = 0; i < to.size(); ++i)
    if (i != *axis && from[i].fixed > to[i].fixed) return std::nullopt;
  const Ints strides = StoredStrides(to);
  ForEachStored(from, *FixedDims(from), [&](const Position& at, size_t i) {
    int64_t place = 0, index = scatter.indices[i];
    scatter.ok = scatter.ok && Normalize(index, to[*axis].fixed);
    for (size_t k = 0; k < to.size(); ++k) place += (k == *axis ? index : at[k].integer.fixed) * strides[k];
    if (scatter.ok) scatter.Put(place, i);
  });
  return scatter.ok ? std::optional(std::vector<Known>{std::move(scatter.result)}) : std::nullopt;
}

Folded ScatterND(const FoldArgs& args) {
  if (!HasThree(args)) return std::nullopt;
  Scatter scatter(args);
  if (!scatter.ok) return ScatterBox(args, PlacesOfTuples(*args.At(1), args.At(0)->type.dims));
  const Dims &to = scatter.result.type.dims, &rows = args.At(1)->type.dims;
  if (rows.empty() || rows.back().fixed > static_cast<int64_t>(to.size())) return std::nullopt;
  const auto depth = static_cast<size_t>(rows.back().fixed);
  Dims expected(rows.begin(), rows.end() - 1);
  expected.insert(expected.end(), to.begin() + static_cast<std::ptrdiff_t>(depth), to.end());
  if (args.At(2)->type.dims != expected) return std::nullopt;
  const Ints extents = *FixedDims(to), strides = StoredStrides(to);
  const int64_t slice =
      ElementCount(Ints(extents.begin() + static_cast<std::ptrdiff_t>(depth), extents.end()));
  const auto updates = static_cast<size_t>(ElementCount(*FixedDims(Dims(rows.begin(), rows.end() - 1))));
  for (size_t row = 0; row < updates && scatter.ok; ++row) {
    int64_t place = 0;
    for (size_t k = 0; k < depth; ++k) {
      int64_t index = scatter.indices[row * depth + k];
      if (!Normalize(index, extents[k])) return std::nullopt;
      place += index * strides[k];
    }
    for (int64_t i = 0; i < slice; ++i)
      scatter.Put(place + i, row * static_cast<size_t>(slice) + static_cast<size_t>(i));
  }
  return scatter.ok ? std::optional(std::vector<Known>{std::move(scatter.result)}) : std::nullopt;
}

// For each element of a small tensor, whether it is zero for every N; nullopt where that depends on
// N.
std::optional<std::vector<bool>> NonZeroElements(const Known* known) {
  const auto dims = known ? FixedDims(known->type.dims) : std::nullopt;
  if (!dims) return std::nullopt;
  std::vector<bool> result;
  for (const Element& e : BroadcastElements(*known, *dims)) {
    const auto sign = Compare(e.integer, Dim(0));
    if (!sign) return std::nullopt;
    result.push_back(IsFloat(known->type.dtype) ? e.real != 0 : *sign != 0);
  }
  return result;
}

// Ones along an axis of N: their places are 0 to N - 1. TorchScript's exporter writes the positions of
// as_strided so.
bool IsOnesOfN(const Known* x) {
  return x && x->type.dims.size() == 1 && !x->type.dims[0].IsFixed() && x->IsSplat() &&
         !IsFloat(x->type.dtype) && x->elements[0].integer.IsFixed() && x->elements[0].integer.fixed != 0 &&
         !x->elements[0].counted;
}

Folded NonZero(const FoldArgs& args) {
  if (IsOnesOfN(args.At(0))) {
    Known places{{DType::kInt64, {Dim(1), args.At(0)->type.dims[0]}}, {}};
    places.elements.push_back({.integer = Dim(0), .per_index = 1});
    return std::vector<Known>{std::move(places)};
  }
  const auto nonzero = NonZeroElements(args.At(0));
  if (!nonzero || args.At(0)->type.dims.empty()) return std::nullopt;
  const auto dims = *FixedDims(args.At(0)->type.dims);
  std::vector<std::vector<Element>> coordinates(dims.size());
  ForEachStored(args.At(0)->type.dims, dims, [&](const Position& at, size_t i) {
    if (!(*nonzero)[i]) return;
    for (size_t axis = 0; axis < at.size(); ++axis) coordinates[axis].push_back(at[axis]);
  });
  const auto rank = static_cast<int64_t>(dims.size()), count = static_cast<int64_t>(coordinates[0].size());
  Known result{{DType::kInt64, {rank, count}}, {}};
  if (!FixedDims(result.type.dims)) return std::nullopt;
  for (const auto& axis : coordinates)
    result.elements.insert(result.elements.end(), axis.begin(), axis.end());
  return std::vector<Known>{std::move(result)};
}

}  // namespace

const std::vector<FoldEntry>& LookupFolds() {
  static const std::vector<FoldEntry> entries = {
      {"Gather", 2, 2, Gather},
      {"GatherElements", 2, 2, GatherElements},
      {"GatherND", 2, 2, GatherND},
      {"Scatter", 3, 3, ScatterElements},
      {"ScatterElements", 3, 3, ScatterElements},
      {"ScatterND", 3, 3, ScatterND},
      {"NonZero", 1, 1, NonZero},
      {"OneHot", 3, 3, OneHot},
  };
  return entries;
}

}  // namespace act::onnx_import
