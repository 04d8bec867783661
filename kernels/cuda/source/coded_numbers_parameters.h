// The parameters of the kernels in coded_numbers.h, for the host and the device.
#pragma once

#include <cstdint>

#include "kernels/cuda/source/lookup_parameters.h"

namespace act::cuda {

struct DecodeParameters {
  const uint8_t* code = nullptr;
  void* to = nullptr;
  int64_t first = 0, count = 0;  // numbers
};

}  // namespace act::cuda
