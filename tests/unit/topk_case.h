// TopK as tests of the processor and of a card have it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/kernel_testing.h"

namespace act {

inline OpCase TopKCase(TestTensor x, int64_t k, bool largest = true, bool last = false) {
  std::vector<int64_t> dims = x.dims;
  dims.back() = k;
  OpCase c{"TopK", {}, {std::move(x)}, {Empty(dims, DType::kInt64)}, {}, {}};
  c.attrs.Set("largest", int64_t{largest});
  c.attrs.Set("last", int64_t{last});
  return c;
}

}  // namespace act
