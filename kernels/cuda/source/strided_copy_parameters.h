// The parameters of the kernels in strided_copy.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/axes_parameters.h"

namespace act::cuda {

struct StridedCopyParameters {
  Axes axes;  // in units
  const void* from = nullptr;
  void* to = nullptr;
  int32_t items = 0;
};

}  // namespace act::cuda
