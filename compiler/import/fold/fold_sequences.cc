// Folds of operators along an axis: ranges, running sums, triangles, reductions.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/import/fold/lookup.h"
#include "compiler/import/known/onnx_types.h"

namespace act::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

Folded One(Known known) { return std::vector<Known>{std::move(known)}; }

// A scalar; nullopt for more elements, and for one that depends on the position.
std::optional<Element> Scalar(const Known* known) {
  if (!known || known->elements.size() != 1 || known->elements[0].per_index != 0) return std::nullopt;
  return known->elements[0];
}

// Elements of Range from start to limit; nullopt where that is no polynomial in N.
std::optional<Dim> RangeLength(const Dim& start, const Dim& limit, int64_t step) {
  const Dim range = limit - start;
  if (!range.IsFixed()) {
    const auto count = DivideExact(range, Dim(step));
    return count && SignsOf(*count).low >= 0 ? count : std::nullopt;
  }
  if (range.fixed == 0 || (range.fixed > 0) != (step > 0)) return Dim(0);
  return Dim((range.fixed - (step > 0 ? 1 : -1)) / step + 1);
}

Folded Range(const FoldArgs& args) {
  const auto start = Scalar(args.At(0)), limit = Scalar(args.At(1)), step = Scalar(args.At(2));
  if (!start || !limit || !step) return std::nullopt;
  const DType dtype = args.At(0)->type.dtype;
  Known result{{dtype, {}}, {}};
  if (IsFloat(dtype)) {
    const double count = std::ceil((limit->real - start->real) / step->real);
    if (!(count <= static_cast<double>(kMaxKnownElements))) return std::nullopt;  // NaN too
    const auto length = static_cast<int64_t>(std::max(count, 0.));
    result.type.dims = {Dim(length)};
    for (int64_t i = 0; i < length; ++i)
      result.elements.push_back(RealElement(dtype, start->real + static_cast<double>(i) * step->real));
    return One(std::move(result));
  }
  if (!step->integer.IsFixed()) return std::nullopt;
  const int64_t by = step->integer.fixed;
  if (by == 0 || by <= -kTooLarge || by >= kTooLarge) return std::nullopt;
  const auto length = RangeLength(start->integer, limit->integer, by);
  if (!length) return std::nullopt;
  result.type.dims = {*length};
  const auto stored = StoredDims(result.type.dims);
  if (!stored) return std::nullopt;
  ForEachStored(result.type.dims, *stored, [&](const Position& at, size_t) {
    result.elements.push_back({start->integer + at[0].integer * Dim(by), 0, at[0].per_index * by});
  });
  return One(std::move(result));
}

// The windows of a Fourier transform: sums of cosines of multiples of an angle that goes once around.
Folded Window(const FoldArgs& args, std::initializer_list<double> factors) {
  const auto size = Scalar(args.At(0));
  const auto dtype = FromOnnxType(args.attrs.Int("output_datatype", onnx::TensorProto::FLOAT));
  if (!size || IsFloat(args.At(0)->type.dtype) || !size->integer.IsFixed() || !dtype || !IsFloat(*dtype))
    return std::nullopt;
  const int64_t length = size->integer.fixed;
  if (length < 1 || length > kMaxKnownElements) return std::nullopt;
  // A window that is not periodic ends where it begins.
  const int64_t around = args.attrs.Int("periodic", 1) != 0 ? length : std::max<int64_t>(length - 1, 1);
  Known result{{*dtype, {Dim(length)}}, {}};
  for (int64_t i = 0; i < length; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(around);
    double sum = 0, multiple = 0;
    for (const double factor : factors) sum += factor * std::cos(multiple++ * angle);
    result.elements.push_back(RealElement(*dtype, length == 1 ? 1 : sum));  // as PyTorch has it
  }
  return One(std::move(result));
}

Folded HannWindow(const FoldArgs& args) { return Window(args, {.5, -.5}); }
Folded HammingWindow(const FoldArgs& args) { return Window(args, {25. / 46, -21. / 46}); }  // ONNX's numbers
Folded BlackmanWindow(const FoldArgs& args) { return Window(args, {.42, -.5, .08}); }

// Sums along the axis that varies with N. All its positions share one element, so the sum is linear
// in the position.
std::optional<Element> SumOfEqual(const Element& x, const Dim& extent, bool exclusive, bool reverse) {
  if (!x.integer.IsFixed() || x.per_index != 0) return std::nullopt;
  const int64_t each = x.integer.fixed;
  if (reverse) return Element{(extent - Dim(exclusive)) * Dim(each), 0, SaturatingMul(-1, each)};
  return Element{Dim(exclusive ? 0 : each), 0, each};
}

Folded CumSum(const FoldArgs& args) {
  const Known* x = args.At(0);
  const auto given = args.At(1) ? AsIntegers(*args.At(1)) : std::nullopt;
  if (!x || !given || given->size() != 1) return std::nullopt;
  const auto axis = NormalizeAxis((*given)[0], x->type.dims.size());
  const auto stored = StoredDims(x->type.dims);
  if (!axis || !stored) return std::nullopt;
  const bool exclusive = args.attrs.Int("exclusive") != 0, reverse = args.attrs.Int("reverse") != 0;
  const Dim& extent = x->type.dims[*axis];
  const bool is_float = IsFloat(x->type.dtype);
  if (is_float && !extent.IsFixed()) return std::nullopt;
  const std::vector<Element> elements = BroadcastElements(*x, *stored);
  Known result{x->type, elements};
  const int64_t step = StoredStrides(x->type.dims)[*axis], length = (*stored)[*axis];
  for (size_t first = 0; first < elements.size(); ++first) {
    if (static_cast<int64_t>(first) / step % length != 0) continue;  // not the first along the axis
    if (!extent.IsFixed()) {
      const auto sum = SumOfEqual(elements[first], extent, exclusive, reverse);
      if (!sum) return std::nullopt;
      result.elements[first] = *sum;
      continue;
    }
    Element sum;
    for (int64_t i = 0; i < length; ++i) {
      const size_t at = first + static_cast<size_t>((reverse ? length - 1 - i : i) * step);
      const Element& x_at = elements[at];
      if (exclusive) result.elements[at] = sum;
      sum = {sum.integer + x_at.integer, sum.real + x_at.real, SaturatingAdd(sum.per_index, x_at.per_index)};
      if (is_float) sum = RealElement(x->type.dtype, sum.real);
      if (!exclusive) result.elements[at] = sum;
    }
  }
  return One(std::move(result));
}

Folded Trilu(const FoldArgs& args) {
  const Known* x = args.At(0);
  if (!x || x->type.dims.size() < 2) return std::nullopt;
  const auto k = args.At(1) ? AsIntegers(*args.At(1)) : std::optional(Ints{0});
  const auto stored = StoredDims(x->type.dims);
  const size_t rows = x->type.dims.size() - 2;
  if (!k || k->size() != 1 || !stored || !x->type.dims[rows].IsFixed() || !x->type.dims[rows + 1].IsFixed())
    return std::nullopt;
  const bool upper = args.attrs.Int("upper", 1) != 0;
  Known result{x->type, BroadcastElements(*x, *stored)};
  ForEachStored(x->type.dims, *stored, [&](const Position& at, size_t i) {
    // |column - row| is below the limit of an extent; k may be anything.
    const int64_t diagonal = at[rows + 1].integer.fixed - at[rows].integer.fixed;
    if (upper ? diagonal < (*k)[0] : diagonal > (*k)[0]) result.elements[i] = {};
  });
  return One(std::move(result));
}

using Combine = std::optional<Element> (*)(const Element&, const Element&);

std::optional<Element> Sum(const Element& a, const Element& b) {
  return Element{a.integer + b.integer, a.real + b.real, SaturatingAdd(a.per_index, b.per_index)};
}
std::optional<Element> Product(const Element& a, const Element& b) {
  if (a.per_index != 0 || b.per_index != 0) return std::nullopt;
  return Element{a.integer * b.integer, a.real * b.real};
}
template <int sign>
std::optional<Element> Extreme(const Element& a, const Element& b) {
  const auto order = Compare(a.integer, b.integer);
  if (a.per_index != 0 || b.per_index != 0 || !order) return std::nullopt;
  return *order * sign > 0 || sign * (a.real - b.real) > 0 ? a : b;
}

template <Combine combine>
Folded Reduce(const FoldArgs& args) {
  const Known* x = args.At(0);
  if (!x) return std::nullopt;
  const Dims& from = x->type.dims;
  const auto given = args.Integers(1, "axes");
  if (!given && args.At(1)) return std::nullopt;
  std::vector<bool> reduced(from.size(), !given || given->empty());
  if (given && given->empty() && args.attrs.Int("noop_with_empty_axes") != 0) return One(*x);
  for (const int64_t axis : given.value_or(Ints{})) {
    const auto normal = NormalizeAxis(axis, from.size());
    if (!normal) return std::nullopt;
    reduced[*normal] = true;
  }
  const auto stored = StoredDims(from);
  if (!stored) return std::nullopt;
  const bool keep = args.attrs.Int("keepdims", 1) != 0;
  Dims kept, dims;
  for (size_t i = 0; i < from.size(); ++i) {
    // One element stands for N positions, so their sum is not known.
    if (reduced[i] && (!from[i].IsFixed() || from[i] == Dim(0))) return std::nullopt;
    kept.push_back(reduced[i] ? Dim(1) : from[i]);
    if (!reduced[i] || keep) dims.push_back(kept.back());
  }
  const Ints strides = StoredStrides(kept);
  std::vector<std::optional<Element>> results(static_cast<size_t>(ElementCount(*StoredDims(kept))));
  const std::vector<Element> elements = BroadcastElements(*x, *stored);
  bool ok = true;
  ForEachStored(from, *stored, [&](const Position& at, size_t i) {
    int64_t place = 0;
    for (size_t k = 0; k < at.size(); ++k)
      if (!reduced[k]) place += at[k].integer.fixed * strides[k];
    std::optional<Element>& result = results[static_cast<size_t>(place)];
    if (ok) result = result ? combine(*result, elements[i]) : elements[i];
    ok = ok && result;
  });
  if (!ok) return std::nullopt;
  Known known{{x->type.dtype, dims}, {}};
  for (const auto& result : results) {
    if (!result || result->integer.TooLarge()) return std::nullopt;
    known.elements.push_back(IsFloat(x->type.dtype) ? RealElement(x->type.dtype, result->real) : *result);
  }
  return One(std::move(known));
}

}  // namespace

const std::vector<FoldEntry>& SequenceFolds() {
  static const std::vector<FoldEntry> entries = {
      {"Range", 3, 3, Range},
      {"CumSum", 2, 2, CumSum},
      {"HannWindow", 1, 1, HannWindow},
      {"HammingWindow", 1, 1, HammingWindow},
      {"BlackmanWindow", 1, 1, BlackmanWindow},
      {"Trilu", 1, 2, Trilu},
      {"ReduceSum", 1, 2, Reduce<Sum>},
      {"ReduceProd", 1, 2, Reduce<Product>},
      {"ReduceMax", 1, 2, Reduce<Extreme<1>>},
      {"ReduceMin", 1, 2, Reduce<Extreme<-1>>},
  };
  return entries;
}

}  // namespace act::onnx_import
