// The parameters of the kernels in pad.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/math/pad_source.h"

namespace act::cuda {

struct PadAxis {
  Divisor extent;  // of y
  int32_t of_x = 0, begin = 0;
  int64_t x_stride = 0;
};

struct PadParameters {
  PadAxis axes[kMaxAxes];
  int32_t count = 0;  // of axes
  PadMode mode = PadMode::kConstant;
  int32_t items = 0;  // units of y
  const void* from = nullptr;
  void* to = nullptr;
  alignas(16) unsigned char value[16] = {};  // a unit of it
};

}  // namespace act::cuda
