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

// to[i] = the number at first + axes.from of i.
struct DecodeStridedParameters {
  const uint8_t* code = nullptr;
  void* to = nullptr;
  int64_t first = 0;
  Axes axes;
  int32_t items = 0;
};

}  // namespace act::cuda
