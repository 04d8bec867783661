// What the folds that move elements share.
#pragma once

#include "compiler/import/fold_shapes.h"

namespace act::onnx_import {

// Row-major strides, in elements. All dims of a known tensor that is no splat are fixed.
inline std::vector<int64_t> Strides(const Dims& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step = SaturatingMul(step, dims[i].fixed)) strides[i] = step;
  return strides;
}

// Calls f(coordinate) for each coordinate of `dims`, the last axis fastest.
template <class F>
void ForEachCoordinate(const std::vector<int64_t>& dims, F f) {
  std::vector<int64_t> at(dims.size(), 0);
  for (int64_t i = ElementCount(dims); i > 0; --i) {
    f(static_cast<const std::vector<int64_t>&>(at));
    for (size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
}

// The tensor of `dims` whose element at coordinate c is x's at linear index source(c).
template <class F>
Folded Rearrange(const Known& x, const Dims& dims, F source) {
  Known result{{x.type.dtype, dims}, {}};
  if (x.IsSplat()) {
    result.elements = x.elements;
    return std::vector<Known>{std::move(result)};
  }
  const auto fixed = FixedDims(dims);
  if (!fixed) return std::nullopt;
  ForEachCoordinate(*fixed, [&](const std::vector<int64_t>& at) {
    result.elements.push_back(x.elements[static_cast<size_t>(source(at))]);
  });
  return std::vector<Known>{std::move(result)};
}

}  // namespace act::onnx_import
