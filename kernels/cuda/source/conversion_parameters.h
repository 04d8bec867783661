// The parameters of the kernels in conversion.h, for the host and the device.
#pragma once

#include <cstdint>

namespace act::cuda {

struct ConversionParameters {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t items = 0;  // of kCount elements
};

}  // namespace act::cuda
