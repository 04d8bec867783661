// Lookup and scatter on known tensors.
#include "compiler/import/fold_rearrange.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

// The integers, counted from the front of an axis; nullopt where one is outside or not known.
std::optional<Ints> Indices(const Known* known, int64_t extent) {
  auto index = known ? AsIntegers(*known) : std::nullopt;
  if (!index) return std::nullopt;
  for (int64_t& i : *index) {
    if (i < -extent || i >= extent) return std::nullopt;
    if (i < 0) i += extent;
  }
  return index;
}

Folded Gather(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1)) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), from.size());
  if (!axis || !FixedDims(from)) return std::nullopt;
  const auto index = Indices(args.At(1), from[*axis].fixed);
  if (!index) return std::nullopt;
  const auto begin = static_cast<std::ptrdiff_t>(*axis);
  Dims dims(from.begin(), from.begin() + begin);
  const Dims& middle = args.At(1)->type.dims;
  dims.insert(dims.end(), middle.begin(), middle.end());
  dims.insert(dims.end(), from.begin() + begin + 1, from.end());
  const Ints strides = Strides(from), index_strides = Strides(middle);
  return Rearrange(*args.At(0), dims, [&](const Ints& at) {
    int64_t source = 0, position = 0;
    for (size_t i = 0; i < *axis; ++i) source += at[i] * strides[i];
    for (size_t i = 0; i < middle.size(); ++i) position += at[*axis + i] * index_strides[i];
    source += (*index)[static_cast<size_t>(position)] * strides[*axis];
    for (size_t k = *axis + 1; k < from.size(); ++k) source += at[k - 1 + middle.size()] * strides[k];
    return source;
  });
}

// Position in a tensor of strides `whole` of the element at `at` of a tensor whose coordinate on `axis` is an
// index.
int64_t Along(const Ints& at, const Ints& whole, size_t axis, int64_t index) {
  int64_t position = index * whole[axis];
  for (size_t i = 0; i < at.size(); ++i)
    if (i != axis) position += at[i] * whole[i];
  return position;
}

bool IsInside(const Dims& part, const Dims& whole, size_t axis) {
  if (part.size() != whole.size()) return false;
  for (size_t i = 0; i < part.size(); ++i)
    if (i != axis && part[i].fixed > whole[i].fixed) return false;
  return true;
}

Folded GatherElements(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1)) return std::nullopt;
  const Dims &from = args.At(0)->type.dims, &to = args.At(1)->type.dims;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), from.size());
  if (!axis || !FixedDims(from) || !FixedDims(to) || !IsInside(to, from, *axis)) return std::nullopt;
  const auto index = Indices(args.At(1), from[*axis].fixed);
  if (!index) return std::nullopt;
  const Ints strides = Strides(from);
  size_t next = 0;
  return Rearrange(*args.At(0), to,
                   [&](const Ints& at) { return Along(at, strides, *axis, (*index)[next++]); });
}

// What GatherND and ScatterND share: for each tuple of indices, where the slice that it names begins.
struct Slices {
  Dims outer, slice;  // axes of the tuples, without the last; axes of a slice
  Ints begin;
};
std::optional<Slices> SlicesOf(const Dims& from, const Known* index, size_t batch_dims) {
  if (!index || !FixedDims(from) || !FixedDims(index->type.dims) || index->type.dims.empty())
    return std::nullopt;
  const Dims& dims = index->type.dims;
  const auto tuple = static_cast<size_t>(dims.back().fixed);
  if (batch_dims >= dims.size() || batch_dims + tuple > from.size()) return std::nullopt;
  const auto values = AsIntegers(*index);
  if (!values) return std::nullopt;
  Slices slices;
  slices.outer.assign(dims.begin(), dims.end() - 1);
  slices.slice.assign(from.begin() + static_cast<std::ptrdiff_t>(batch_dims + tuple), from.end());
  for (size_t i = 0; i < batch_dims; ++i)
    if (from[i] != dims[i]) return std::nullopt;
  const Ints strides = Strides(from);
  size_t next = 0;
  bool inside = true;
  ForEachCoordinate(*FixedDims(slices.outer), [&](const Ints& at) {
    int64_t begin = 0;
    for (size_t i = 0; i < batch_dims; ++i) begin += at[i] * strides[i];
    for (size_t k = 0; k < tuple; ++k) {
      const int64_t extent = from[batch_dims + k].fixed, i = (*values)[next++];
      inside = inside && i >= -extent && i < extent;
      begin += (i < 0 ? i + extent : i) * strides[batch_dims + k];
    }
    slices.begin.push_back(inside ? begin : 0);
  });
  return inside ? std::optional(slices) : std::nullopt;
}

Folded GatherND(const FoldArgs& args) {
  if (!args.At(0)) return std::nullopt;
  const int64_t batch_dims = args.attrs.Int("batch_dims");
  if (batch_dims < 0) return std::nullopt;
  const auto slices = SlicesOf(args.At(0)->type.dims, args.At(1), static_cast<size_t>(batch_dims));
  if (!slices) return std::nullopt;
  Dims dims = slices->outer;
  dims.insert(dims.end(), slices->slice.begin(), slices->slice.end());
  const auto slice = FixedDims(slices->slice);
  const int64_t length = ElementCount(*slice);
  int64_t next = 0;
  return Rearrange(*args.At(0), dims, [&](const Ints&) {
    const int64_t i = next++;
    return slices->begin[static_cast<size_t>(i / length)] + i % length;
  });
}

// The elements of input 0, one by one, with those of input 2 at the places that `place` names.
template <class F>
Folded Overwrite(const FoldArgs& args, F place) {
  const auto dims = FixedDims(args.At(0)->type.dims), update_dims = FixedDims(args.At(2)->type.dims);
  if (!dims || !update_dims || args.attrs.String("reduction", "none") != "none" ||
      args.At(0)->type.dtype != args.At(2)->type.dtype)
    return std::nullopt;
  Known result{args.At(0)->type, BroadcastElements(*args.At(0), *dims)};
  const std::vector<Element> updates = BroadcastElements(*args.At(2), *update_dims);
  size_t next = 0;
  ForEachCoordinate(*update_dims, [&](const Ints& at) {
    result.elements[static_cast<size_t>(place(at, next))] = updates[next];
    ++next;
  });
  return std::vector<Known>{std::move(result)};
}

Folded ScatterElements(const FoldArgs& args) {
  if (!args.At(0) || !args.At(1) || !args.At(2)) return std::nullopt;
  const Dims &whole = args.At(0)->type.dims, &part = args.At(2)->type.dims;
  const auto axis = NormalizeAxis(args.attrs.Int("axis"), whole.size());
  if (!axis || !FixedDims(whole) || !FixedDims(part) || !IsInside(part, whole, *axis) ||
      args.At(1)->type.dims != part)
    return std::nullopt;
  const auto index = Indices(args.At(1), whole[*axis].fixed);
  if (!index) return std::nullopt;
  const Ints strides = Strides(whole);
  return Overwrite(args, [&](const Ints& at, size_t i) { return Along(at, strides, *axis, (*index)[i]); });
}

Folded ScatterND(const FoldArgs& args) {
  if (!args.At(0) || !args.At(2)) return std::nullopt;
  const auto slices = SlicesOf(args.At(0)->type.dims, args.At(1), 0);
  if (!slices) return std::nullopt;
  Dims dims = slices->outer;
  dims.insert(dims.end(), slices->slice.begin(), slices->slice.end());
  if (args.At(2)->type.dims != dims) return std::nullopt;
  const int64_t length = ElementCount(*FixedDims(slices->slice));
  return Overwrite(args, [&](const Ints&, size_t i) {
    const auto at = static_cast<int64_t>(i);
    return slices->begin[static_cast<size_t>(at / length)] + at % length;
  });
}

// Of each element of a small tensor, whether it is zero for every N; nullopt where that depends.
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

Folded NonZero(const FoldArgs& args) {
  const auto nonzero = NonZeroElements(args.At(0));
  if (!nonzero || args.At(0)->type.dims.empty()) return std::nullopt;
  const auto dims = *FixedDims(args.At(0)->type.dims);
  std::vector<std::vector<Element>> coordinates(dims.size());
  size_t next = 0;
  ForEachCoordinate(dims, [&](const Ints& at) {
    if (!(*nonzero)[next++]) return;
    for (size_t axis = 0; axis < at.size(); ++axis) coordinates[axis].push_back({Dim(at[axis]), 0});
  });
  const auto rank = static_cast<int64_t>(dims.size()), count = static_cast<int64_t>(coordinates[0].size());
  Known result{{DType::kInt64, {rank, count}}, {}};
  if (!FixedDims(result.type.dims)) return std::nullopt;
  for (const auto& axis : coordinates)
    result.elements.insert(result.elements.end(), axis.begin(), axis.end());
  return std::vector<Known>{std::move(result)};
}

Folded Tile(const FoldArgs& args) {
  const auto repeats = args.At(0) && args.At(1) ? AsIntegers(*args.At(1)) : std::nullopt;
  if (!repeats || repeats->size() != args.At(0)->type.dims.size()) return std::nullopt;
  const Dims& from = args.At(0)->type.dims;
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    if ((*repeats)[i] < 0) return std::nullopt;
    dims.push_back(from[i] * Dim((*repeats)[i]));
  }
  if (!args.At(0)->IsSplat() && !FixedDims(from)) return std::nullopt;
  const Ints strides = Strides(from);
  return Rearrange(*args.At(0), dims, [&](const Ints& at) {
    int64_t source = 0;
    for (size_t i = 0; i < at.size(); ++i) source += at[i] % from[i].fixed * strides[i];
    return source;
  });
}

}  // namespace

const std::vector<FoldEntry>& GatherFolds() {
  static const std::vector<FoldEntry> entries = {
      {"Gather", Gather},       {"GatherElements", GatherElements},
      {"GatherND", GatherND},   {"ScatterElements", ScatterElements},
      {"ScatterND", ScatterND}, {"NonZero", NonZero},
      {"Tile", Tile},
  };
  return entries;
}

}  // namespace act::onnx_import
