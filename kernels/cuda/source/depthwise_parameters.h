// The parameters of the kernels in depthwise.h, for the host and the device.
#pragma once

#include "kernels/cuda/source/window_parameters.h"

namespace act::cuda {

struct DepthwiseParameters {
  WindowParameters window;
  const void *from = nullptr, *w = nullptr;
  const float* bias = nullptr;
  void* to = nullptr;
  int32_t channels = 0;
  int64_t w_tap = 0, w_channel = 0, first_tap = 0;  // of weights: strides, and where the first tap lies
  Divisor groups;                                   // of kCount channels
  Divisor runs;                                     // of kOutputs neighbouring outputs, in a row of them
  int32_t items = 0;                                // threads
};

// Sums over all samples of dy [N,O..,C] times x, in parts of rows of dy.
struct DepthwiseGradWeightParameters {
  WindowParameters window;
  const void *dy = nullptr, *x = nullptr;
  float* to = nullptr;  // [part, C, taps]
  int32_t channels = 0;
  Divisor channel_blocks, tap_rows, tap_columns;  // blocks: of 32 channels, and of kRows by kColumns taps
  int32_t rows = 0, part_rows = 0;                // rows of dy: of all samples, of a part
};

}  // namespace act::cuda
