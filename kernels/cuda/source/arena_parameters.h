// The parameters of the kernels in arena.h, for the host and the device.
#pragma once

#include <cstdint>

namespace act {

struct AddParameters {
  float* sum;
  const float* part;
  int64_t count;
};

// Looks at `bytes` bytes from `from` on. Each thread writes one result.
struct LookParameters {
  const unsigned char* from;
  int64_t bytes;
  uint64_t* results;
  uint32_t value;  // of find_other
};

}  // namespace act
