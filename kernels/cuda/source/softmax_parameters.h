#pragma once

#include <cstdint>

namespace act::cuda {

// Rows of `columns` elements. One team for each.
struct SoftmaxParameters {
  const float *a = nullptr, *b = nullptr;  // forward: a is x; gradient: a is dy and b is y
  float* result = nullptr;
  int64_t rows = 0;
  int32_t columns = 0;
};

}  // namespace act::cuda
