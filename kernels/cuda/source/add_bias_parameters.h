// The parameters of the kernels in add_bias.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/divisor.h"

namespace act::cuda {

struct AddBiasParameters {
  const void* from = nullptr;
  const float* bias = nullptr;
  void* to = nullptr;
  Divisor groups;  // of kCount channels
  int32_t items = 0;
};

}  // namespace act::cuda
