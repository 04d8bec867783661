// The parameters of the kernels in sum_parts.h, for the host and the device.
#pragma once

#include <cstdint>

namespace act::cuda {

struct SumPartsParameters {
  const float* parts = nullptr;  // [count, elements]
  void* to = nullptr;
  int64_t elements = 0;
  int32_t count = 0;
};

}  // namespace act::cuda
