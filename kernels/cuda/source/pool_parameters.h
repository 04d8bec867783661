// The parameters of the kernels in pool.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/window_parameters.h"

namespace act::cuda {

struct PoolParameters {
  WindowParameters window;
  const void* from = nullptr;
  void* to = nullptr;
  void* index = nullptr;  // positions of maxima, [pixels of y][channels]; may be null where they are made
  int32_t channels = 0;
  Divisor groups;     // of kCount channels, in a pixel
  int32_t items = 0;  // threads: pixels of `to` times groups
  bool include_pad = false;
};

}  // namespace act::cuda
