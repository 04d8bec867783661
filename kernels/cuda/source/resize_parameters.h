// The parameters of the kernels in resize.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/divisor.h"

namespace act::cuda {

// from [batch, outer columns, inner columns, channels] -> to [batch, outer rows, inner rows, channels]
struct ResizeParameters {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t outer_columns = 0, inner_columns = 0, channels = 0;
  Divisor outer_rows, inner_rows, groups;  // groups: of kCount channels
  int32_t items = 0;
};

}  // namespace act::cuda
