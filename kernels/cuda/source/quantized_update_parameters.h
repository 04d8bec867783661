// The parameters of the kernels in quantized_update.h, for the host and the device.
#pragma once

#include <cstdint>

#include "kernels/math/step_block.h"

namespace act::cuda {

// A state: in bfloat16 (codes is null), or in codes with a maximum for each block of 256.
struct QuantizedState {
  uint16_t* numbers = nullptr;
  uint8_t* codes = nullptr;
  float* maxima = nullptr;
  // Of codes: the numbers of the map.
  int32_t size = 0, zero = 0;
  float map[256] = {};
};

struct QuantizedUpdateParameters {
  const float* gradient = nullptr;
  const float* scalars[7] = {};
  const float* clip = nullptr;
  float* parameter = nullptr;
  float* direction = nullptr;  // of LAMB, which leaves the parameter; may be the gradient
  const StepBlock* step = nullptr;
  int64_t elements = 0;
  int32_t scalar_count = 0, stream = 0;
  bool decoupled = false;
  QuantizedState states[2];
};

}  // namespace act::cuda
