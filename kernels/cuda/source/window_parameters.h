// A window that slides over channels-last activations (kernels/site/window.h), as kernels see it, for the
// host and the device.
#pragma once

#include "kernels/cuda/source/divisor.h"

namespace act::cuda {

// All coordinates that a window reaches, inside the input or not, are within +-2^30.
struct WindowAxis {
  Divisor in, out, kernel, stride, dilation;
  int32_t pad = 0, pad_end = 0;
};

struct WindowParameters {
  WindowAxis axes[3];
};

}  // namespace act::cuda
