#include "compiler/import/known/known.h"

#include <algorithm>

namespace act::onnx_import {

bool Known::IsCounted() const {
  return std::any_of(elements.begin(), elements.end(), [](const Element& e) { return e.counted; });
}

Known IntegerVector(const Dims& values) {
  Known known{{DType::kInt64, {static_cast<int64_t>(values.size())}}, {}};
  for (const Dim& value : values) known.elements.push_back({value, 0});
  return known;
}

Known IntegerScalar(const Dim& value) { return {{DType::kInt64, {}}, {{value, 0}}}; }

Element RealElement(DType dtype, double value) {
  return {Dim(0), dtype == DType::kFloat64 ? value : static_cast<double>(static_cast<float>(value))};
}

Known RealScalar(DType dtype, double value) { return {{dtype, {}}, {RealElement(dtype, value)}}; }

std::optional<std::vector<int64_t>> FixedDims(const Dims& dims) {
  std::vector<int64_t> fixed;
  for (const Dim& dim : dims) {
    if (!dim.IsFixed() || dim.fixed < 0) return std::nullopt;
    fixed.push_back(dim.fixed);
  }
  if (ElementCount(fixed) > kMaxKnownElements) return std::nullopt;
  return fixed;
}

std::optional<size_t> VaryingAxis(const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (!dims[i].IsFixed()) return i;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> StoredDims(const Dims& dims) {
  Dims stored = dims;
  if (const auto varying = VaryingAxis(dims)) stored[*varying] = 1;
  return FixedDims(stored);
}

std::optional<Dims> AsDims(const Known& known) {
  if (IsFloat(known.type.dtype)) return std::nullopt;
  const auto dims = FixedDims(known.type.dims);
  if (!dims) return std::nullopt;
  Dims values;
  for (const Element& element : BroadcastElements(known, *dims)) values.push_back(element.integer);
  return values;
}

std::optional<std::vector<int64_t>> AsIntegers(const Known& known) {
  const auto dims = AsDims(known);
  if (!dims) return std::nullopt;
  std::vector<int64_t> values;
  for (const Dim& dim : *dims) {
    if (!dim.IsFixed()) return std::nullopt;
    values.push_back(dim.fixed);
  }
  return values;
}

std::optional<double> AsReal(const Known& known) {
  if (known.elements.empty()) return std::nullopt;
  const Element& first = known.elements[0];
  for (const Element& e : known.elements)
    if (e != first || e.per_index != 0) return std::nullopt;
  if (IsFloat(known.type.dtype)) return first.real;
  if (!first.integer.IsFixed()) return std::nullopt;
  return static_cast<double>(first.integer.fixed);
}

std::vector<Element> BroadcastElements(const Known& known, const std::vector<int64_t>& dims) {
  const size_t count = static_cast<size_t>(ElementCount(dims));
  if (known.IsSplat()) return std::vector<Element>(count, known.elements[0]);
  // Stride of the source along each output axis; 0 where it broadcasts.
  std::vector<int64_t> stride(dims.size(), 0);
  int64_t step = 1;
  for (size_t i = known.type.dims.size(); i-- > 0;) {
    const int64_t extent = known.type.dims[i].IsFixed() ? known.type.dims[i].fixed : 1;
    if (extent != 1) stride[i + dims.size() - known.type.dims.size()] = step;
    step *= extent;
  }
  std::vector<Element> result;
  result.reserve(count);
  for (size_t linear = 0; linear < count; ++linear) {
    int64_t rest = static_cast<int64_t>(linear), source = 0;
    for (size_t axis = dims.size(); axis-- > 0;) {
      source += rest % dims[axis] * stride[axis];
      rest /= dims[axis];
    }
    result.push_back(known.elements[static_cast<size_t>(source)]);
  }
  return result;
}

Signs SignsOf(const Dim& value) {
  const auto sign = [](int64_t v) { return (v > 0) - (v < 0); };
  const int at_one = sign(value.At(1));
  if (value.IsFixed()) return {sign(value.fixed), sign(value.fixed)};
  // Both coefficients of N have the same sign: the value is monotone and unbounded, so N = 1 is one
  // end.
  if (value.per_batch >= 0 && value.per_batch2 >= 0) return {at_one, 1};
  if (value.per_batch <= 0 && value.per_batch2 <= 0) return {-1, at_one};
  return {};
}

Signs SignsOf(const Element& value, const Dim& extent) {
  const Signs first = SignsOf(value.integer);
  if (value.per_index == 0) return first;
  const Signs last = SignsOf(value.integer + (extent - Dim(1)) * Dim(value.per_index));
  return {std::min(first.low, last.low), std::max(first.high, last.high)};
}

std::optional<int> Compare(const Dim& a, const Dim& b) {
  const Signs signs = SignsOf(a - b);
  return signs.low == signs.high ? std::optional(signs.low) : std::nullopt;
}

}  // namespace act::onnx_import
