// The elements of a tensor, given by strides: enough to describe transposes, slices,
// concatenations, broadcasts and reductions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/tensor_type.h"

namespace act {

// Element i, counted row-major in `dims`, lies at offset + sum of coordinate * stride (in
// elements).
struct Strided {
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;

  int64_t Elements() const { return ElementCount(dims); }
  int64_t At(int64_t i) const {
    int64_t at = offset;
    for (size_t d = dims.size(); d-- > 0;) {
      at += i % dims[d] * strides[d];
      i /= dims[d];
    }
    return at;
  }
};

// The strides of a plain row-major tensor. Extents of 0 count as 1.
inline std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride = SaturatingMul(stride, dims[d] > 0 ? dims[d] : 1);
  }
  return strides;
}

// "[2,3]", for the reasons of refusals.
inline std::string DimsText(const std::vector<int64_t>& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

}  // namespace act
