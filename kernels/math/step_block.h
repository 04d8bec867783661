// What changes from step to step, for kernels of a device: a few hundred bytes of its memory, written by
// one copy before a step. A recorded step reads them anew at each launch.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace act {

inline constexpr int kMaxStepScalars = 32;

enum class DataFault : uint32_t { kNone, kLabel, kIndex, kDivision };

struct StepBlock {
  uint64_t seed = 0, step = 0, rounding = 0;  // as in StepState
  int32_t rounding_stream = -1;
  uint32_t unused = 0;
  // of optimizer.h: the numbers that updates read, in the order of AllStepScalars()
  float scalars[kMaxStepScalars] = {};
};

// The first fault in data that a kernel has met. Kernels clamp and report; the host reads it after the step.
struct FaultRecord {
  uint32_t kind = 0;  // DataFault; written last
  int32_t node = -1;
  int64_t value = 0;  // the label or the index; 0 of a division by zero
};

// The random key for a stream's rounding (StepState::RoundingSeed).
ACT_HOST_DEVICE inline uint64_t RoundingSeed(const StepBlock& block, int32_t stream) {
  return block.rounding_stream == -1 || block.rounding_stream == stream ? block.seed ^ block.rounding
                                                                        : block.seed;
}

}  // namespace act
