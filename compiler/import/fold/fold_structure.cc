// Folds of operators that move or make elements. Shape and Size are not here: they read only a
// type, so import_constants.cc computes them for any operand.
#include <algorithm>

#include "compiler/import/fold/lookup.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The same elements in other dims. The axis that varies with N must remain an axis, with as many
// elements before it: its positions are not stored, and cannot be moved.
Folded WithDims(const Known& x, const Dims& dims) {
  if (!x.IsSplat()) {
    const auto before = VaryingAxis(x.type.dims), after = VaryingAxis(dims);
    if (before.has_value() != after.has_value() || !StoredDims(dims)) return std::nullopt;
    if (before) {
      const auto leading = [](const Dims& all, size_t axis) {
        return ElementCount(*StoredDims(Dims(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(axis))));
      };
      if (x.type.dims[*before] != dims[*after] || leading(x.type.dims, *before) != leading(dims, *after))
        return std::nullopt;
    }
  }
  return std::vector<Known>{Known{{x.type.dtype, dims}, x.elements}};
}

// Axes as ONNX counts them in a tensor of this rank; nullopt for one outside or given twice.
std::optional<std::vector<bool>> AxisSet(const Ints& axes, size_t rank) {
  std::vector<bool> set(rank, false);
  for (int64_t a : axes) {
    const auto axis = NormalizeAxis(a, rank);
    if (!axis || set[*axis]) return std::nullopt;
    set[*axis] = true;
  }
  return set;
}

Folded Unsqueeze(const FoldArgs& args) {
  const auto axes = args.Integers(1, "axes");
  if (!args.At(0) || !axes) return std::nullopt;
  const auto set = AxisSet(*axes, args.At(0)->type.dims.size() + axes->size());
  if (!set) return std::nullopt;
  Dims dims;
  size_t next = 0;
  for (bool inserted : *set) dims.push_back(inserted ? Dim(1) : args.At(0)->type.dims[next++]);
  return WithDims(*args.At(0), dims);
}

Folded Squeeze(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  const auto axes = args.Integers(1, "axes");
  if (!axes && args.At(1)) return std::nullopt;
  const auto set = AxisSet(axes.value_or(Ints{}), from.size());
  if (!set) return std::nullopt;
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool drop = axes ? (*set)[i] : from[i] == Dim(1);
    if (drop && from[i] != Dim(1)) return std::nullopt;
    if (!drop) dims.push_back(from[i]);
  }
  return WithDims(*args.At(0), dims);
}

Folded Reshape(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1)) return std::nullopt;
  const auto shape = AsDims(*args.At(1));
  if (!shape) return std::nullopt;
  const auto dims = ResolveReshape(args.At(0)->type.dims, *shape, args.attrs.Int("allowzero") != 0);
  return dims ? WithDims(*args.At(0), *dims) : std::nullopt;
}

Folded Flatten(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  int64_t axis = args.attrs.Int("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(from.size());
  if (axis < 0 || axis > static_cast<int64_t>(from.size())) return std::nullopt;
  Dim rows(1), columns(1);
  for (size_t i = 0; i < from.size(); ++i)
    (static_cast<int64_t>(i) < axis ? rows : columns) =
        (static_cast<int64_t>(i) < axis ? rows : columns) * from[i];
  return WithDims(*args.At(0), {rows, columns});
}

Folded Transpose(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  const auto perm = ResolvePerm(args.attrs, from.size());
  if (!perm) return std::nullopt;
  Dims dims;
  for (const int64_t axis : *perm) dims.push_back(from[static_cast<size_t>(axis)]);
  return Lookup(*args.At(0), dims, [&](const Position& to, Position& source) {
    for (size_t i = 0; i < to.size(); ++i) source[static_cast<size_t>((*perm)[i])] = to[i];
    return true;
  });
}

Folded Concat(const FoldArgs& args) {
  if (args.in.empty() || !args.At(0)) return std::nullopt;
  const TensorType& first = args.At(0)->type;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), first.dims.size());
  if (!axis) return std::nullopt;
  Known result{first, {}};
  result.type.dims[*axis] = Dim(0);
  std::vector<std::vector<Element>> parts;
  Ints rows;  // elements of each part along `axis` and the axes after it
  int64_t outer = 1;
  for (const Known* part : args.in) {
    if (!part || part->type.dtype != first.dtype || part->type.dims.size() != first.dims.size())
      return std::nullopt;
    const auto fixed = StoredDims(part->type.dims);
    if (!fixed || !part->type.dims[*axis].IsFixed()) return std::nullopt;
    outer = ElementCount(Ints(fixed->begin(), fixed->begin() + static_cast<std::ptrdiff_t>(*axis)));
    rows.push_back(ElementCount(Ints(fixed->begin() + static_cast<std::ptrdiff_t>(*axis), fixed->end())));
    parts.push_back(BroadcastElements(*part, *fixed));
    TensorType rest = part->type;
    result.type.dims[*axis] = result.type.dims[*axis] + rest.dims[*axis];
    rest.dims[*axis] = result.type.dims[*axis];
    if (rest != result.type) return std::nullopt;
  }
  if (!StoredDims(result.type.dims)) return std::nullopt;
  for (int64_t o = 0; o < outer; ++o)
    for (size_t p = 0; p < parts.size(); ++p)
      for (int64_t i = 0; i < rows[p]; ++i)
        result.elements.push_back(parts[p][static_cast<size_t>(o * rows[p] + i)]);
  return std::vector<Known>{std::move(result)};
}

Folded SliceRanges(const Known& x, const std::vector<SliceRange>& ranges) {
  Dims dims;
  for (const SliceRange& range : ranges) dims.push_back(range.extent);
  return Lookup(x, dims, [&](const Position& to, Position& source) {
    for (size_t i = 0; i < to.size(); ++i)
      source[i] = {to[i].integer * Dim(ranges[i].step) + Dim(ranges[i].start), 0,
                   SaturatingMul(to[i].per_index, ranges[i].step)};
    return true;
  });
}

Folded Slice(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  std::vector<SliceRange> ranges;
  for (const Dim& dim : from) ranges.push_back({0, dim, 1});
  // Slice-1 has attributes, Slice-10 inputs; ends may be polynomials.
  const auto starts = args.Integers(1, "starts");
  std::optional<Dims> ends;
  if (const Known* known = args.At(2)) {
    ends = AsDims(*known);
  } else if (args.attrs.Has("ends")) {
    ends.emplace();
    for (int64_t end : args.attrs.Ints("ends")) ends->push_back(end);
  }
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  auto axes = args.Integers(3, "axes");
  auto steps = args.Integers(4, "steps");
  if ((!axes && args.At(3)) || (!steps && args.At(4))) return std::nullopt;
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (!steps) steps = Ints(starts->size(), 1);
  if (axes->size() != starts->size() || steps->size() != starts->size()) return std::nullopt;
  for (size_t i = 0; i < starts->size(); ++i) {
    const auto axis = NormalizeAxis((*axes)[i], from.size());
    if (!axis) return std::nullopt;
    const auto range = ResolveSlice(from[*axis], (*starts)[i], (*ends)[i], (*steps)[i]);
    if (!range) return std::nullopt;
    ranges[*axis] = *range;
  }
  return SliceRanges(*args.At(0), ranges);
}

Folded Split(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), from.size());
  if (!axis) return std::nullopt;
  const auto sizes = ResolveSplit(from[*axis], args.Integers(1, "split"), args.outputs);
  if (!sizes) return std::nullopt;
  std::vector<Known> parts;
  int64_t start = 0;
  for (int64_t size : *sizes) {
    std::vector<SliceRange> ranges;
    for (const Dim& dim : from) ranges.push_back({0, dim, 1});
    ranges[*axis] = {start, size, 1};
    Folded part = SliceRanges(*args.At(0), ranges);
    if (!part) return std::nullopt;
    parts.push_back(std::move((*part)[0]));
    start += size;
  }
  return parts;
}

Folded Tile(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  const auto repeats = AsDims(*args.At(1));
  if (!repeats || repeats->size() != from.size()) return std::nullopt;
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    if (SignsOf((*repeats)[i]).low < 0) return std::nullopt;
    dims.push_back(from[i] * (*repeats)[i]);
  }
  return Lookup(*args.At(0), dims, [&](const Position& to, Position& source) {
    for (size_t i = 0; i < to.size(); ++i) {
      source[i] = to[i];
      if ((*repeats)[i] == Dim(1)) continue;
      // All positions along an axis that varies with N must share one element.
      if (!from[i].IsFixed() || (!dims[i].IsFixed() && from[i] != Dim(1))) return false;
      source[i] = {Dim(to[i].integer.fixed % std::max<int64_t>(from[i].fixed, 1))};
    }
    return true;
  });
}

Folded Expand(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1)) return std::nullopt;
  const auto shape = AsDims(*args.At(1));
  if (!shape) return std::nullopt;
  // Expand broadcasts both ways: a 1 in the shape keeps the operand's extent.
  const Dims& from = args.At(0)->type.dims;
  Dims dims = *shape;
  while (dims.size() < from.size()) dims.insert(dims.begin(), Dim(1));
  for (size_t i = 0; i < from.size(); ++i) {
    Dim& dim = dims[i + dims.size() - from.size()];
    if (dim == Dim(1)) dim = from[i];
    if (from[i] != Dim(1) && from[i] != dim) return std::nullopt;
  }
  if (args.At(0)->IsSplat()) return WithDims(*args.At(0), dims);
  const auto stored = StoredDims(dims);
  if (!stored) return std::nullopt;
  return std::vector<Known>{Known{{args.At(0)->type.dtype, dims}, BroadcastElements(*args.At(0), *stored)}};
}

}  // namespace

const std::vector<FoldEntry>& StructureFolds() {
  static const std::vector<FoldEntry> entries = {
      {"Unsqueeze", 1, 2, Unsqueeze}, {"Squeeze", 1, 2, Squeeze},     {"Reshape", 2, 2, Reshape},
      {"Flatten", 1, 1, Flatten},     {"Transpose", 1, 1, Transpose}, {"Concat", 1, -1, Concat},
      {"Slice", 1, 5, Slice},         {"Split", 1, 2, Split},         {"Expand", 2, 2, Expand},
      {"Tile", 2, 2, Tile},
  };
  return entries;
}

}  // namespace act::onnx_import
