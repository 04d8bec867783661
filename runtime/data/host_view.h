// A tensor in host memory as files store it: concrete dims, read-only bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/tensor_type.h"

namespace act {

struct HostView {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  const std::byte* data = nullptr;  // row-major; may be unaligned
  int64_t bytes = 0;
};

// For example "f32[8,3,32,32]".
std::string ToString(const HostView& view);
std::string DimsToString(const std::vector<int64_t>& dims);

}  // namespace act
