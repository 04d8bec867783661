#include "compiler/import/fold/fold_shapes.h"

#include <algorithm>

namespace act::onnx_import {
namespace {

// Exporters write "to the end" as a number far beyond any axis: tf2onnx as 10^9, others as the greatest of
// their type.
constexpr int64_t kToTheEnd = 1'000'000'000;

}  // namespace

std::optional<std::vector<int64_t>> FoldArgs::Integers(size_t i, const char* name) const {
  if (const Known* known = At(i)) return AsIntegers(*known);
  if (attrs.Has(name)) return attrs.Ints(name);
  return std::nullopt;
}

const std::vector<const std::vector<FoldEntry>*>& AllFolds() {
  static const std::vector<const std::vector<FoldEntry>*> families = {&ElementwiseFolds(), &StructureFolds(),
                                                                      &LookupFolds(), &SequenceFolds()};
  return families;
}

const FoldEntry* FindFold(std::string_view op) {
  for (const auto* family : AllFolds())
    for (const FoldEntry& entry : *family)
      if (entry.op == op) return &entry;
  return nullptr;
}

std::optional<size_t> NormalizeAxis(int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::optional<std::vector<int64_t>> ResolvePerm(const NodeAttributes& attrs, size_t rank) {
  std::vector<int64_t> perm = attrs.Ints("perm");
  if (perm.empty())
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  std::vector<bool> seen(rank, false);
  for (int64_t& axis : perm) {
    const auto normal = NormalizeAxis(axis, rank);
    if (!normal || seen[*normal]) return std::nullopt;
    seen[*normal] = true;
    axis = static_cast<int64_t>(*normal);
  }
  if (perm.size() != rank) return std::nullopt;
  return perm;
}

std::optional<SliceRange> ResolveSlice(const Dim& axis, const Dim& start, const Dim& end, int64_t step) {
  if (step == 0 || step < -kTooLarge || step > kTooLarge) return std::nullopt;
  const bool to_end = end.IsFixed() ? end.fixed >= kToTheEnd : end == axis;
  if (start == Dim(0) && to_end && step == 1) return SliceRange{0, axis, 1};
  if (!axis.IsFixed() || !start.IsFixed()) return std::nullopt;
  const int64_t extent = axis.fixed;
  int64_t last = end.fixed;
  if (!end.IsFixed()) {  // a polynomial: decided only where end >= axis for every N
    if (Compare(end + Dim(1), axis) != 1) return std::nullopt;
    last = extent;
  }
  int64_t first = start.fixed;
  if (first < 0) first += extent;
  if (last < 0) last += extent;
  // Half-open in the direction of the step; -1 is "before the first" when walking backwards.
  first = step > 0 ? std::clamp<int64_t>(first, 0, extent) : std::clamp<int64_t>(first, -1, extent - 1);
  last = step > 0 ? std::clamp<int64_t>(last, 0, extent) : std::clamp<int64_t>(last, -1, extent - 1);
  const int64_t span = step > 0 ? last - first : first - last;
  const int64_t stride = step > 0 ? step : -step;
  const int64_t count = span > 0 ? (span - 1) / stride + 1 : 0;
  return SliceRange{count > 0 ? first : 0, count, step};
}

std::optional<BatchSlice> ResolveBatchSlice(const Dim& axis, const Dim& start, const Dim& end, int64_t step) {
  if (step == 0 || step < -kTooLarge || step > kTooLarge) return std::nullopt;
  // Counted from the front and clamped to low..high, as ONNX does.
  const auto resolve = [&axis](Dim at, const Dim& low, const Dim& high) -> std::optional<Dim> {
    if (at.IsFixed() && at.fixed >= kToTheEnd) return high;
    if (at.IsFixed() && at.fixed <= -kToTheEnd) return low;
    if (SignsOf(at).high < 0)
      at = at + axis;
    else if (SignsOf(at).low < 0)
      return std::nullopt;
    if (SignsOf(at - high).low >= 0) return high;
    if (SignsOf(low - at).low >= 0) return low;
    return SignsOf(at - low).low >= 0 && SignsOf(high - at).low >= 0 ? std::optional(at) : std::nullopt;
  };
  const Dim low = step > 0 ? 0 : -1, high = step > 0 ? axis : axis - Dim(1);
  const auto first = resolve(start, low, high), last = resolve(end, low, high);
  if (!first || !last) return std::nullopt;
  const Dim span = step > 0 ? *last - *first : *first - *last;
  const Dim stride(step > 0 ? step : -step);
  if (SignsOf(span).high <= 0) return BatchSlice{0, 0, step};
  if (SignsOf(span).low < 0) return std::nullopt;
  const auto count =
      span.IsFixed() ? std::optional(Dim(CeilDiv(span.fixed, stride.fixed))) : DivideExact(span, stride);
  if (!count) return std::nullopt;
  return BatchSlice{*first, *count, step};
}

std::optional<Dims> ResolveReshape(const Dims& from, const Dims& shape, bool allow_zero) {
  Dims dims;
  std::optional<size_t> open;
  Dim count(1), given(1);
  for (const Dim& dim : from) count = count * dim;
  for (size_t i = 0; i < shape.size(); ++i) {
    Dim dim = shape[i];
    if (dim == Dim(0) && !allow_zero) {
      if (i >= from.size()) return std::nullopt;
      dim = from[i];
    }
    if (dim == Dim(-1)) {
      if (open) return std::nullopt;
      open = i;
    } else {
      if (dim.IsFixed() && dim.fixed < 0) return std::nullopt;
      given = given * dim;
    }
    dims.push_back(dim);
  }
  if (open) {
    const std::optional<Dim> rest = DivideExact(count, given);
    if (!rest) return std::nullopt;
    dims[*open] = *rest;
  } else if (given != count) {
    return std::nullopt;
  }
  return dims;
}

std::optional<std::vector<int64_t>> ResolveSplit(const Dim& extent,
                                                 const std::optional<std::vector<int64_t>>& sizes,
                                                 size_t outputs) {
  if (!extent.IsFixed() || outputs == 0) return std::nullopt;
  const auto parts = static_cast<int64_t>(outputs);
  std::vector<int64_t> result;
  if (sizes) {
    if (sizes->size() != outputs) return std::nullopt;
    int64_t sum = 0;
    for (int64_t size : *sizes) {
      if (size < 0) return std::nullopt;
      sum = SaturatingAdd(sum, size);
    }
    if (sum != extent.fixed) return std::nullopt;
    return sizes;
  }
  const int64_t part = extent.fixed / parts + (extent.fixed % parts != 0);
  for (int64_t i = 0, left = extent.fixed; i < parts; ++i, left -= part)
    result.push_back(std::clamp<int64_t>(left, 0, part));
  return result;
}

}  // namespace act::onnx_import
