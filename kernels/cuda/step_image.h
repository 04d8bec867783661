// What is copied to a device before each step: the numbers that its kernels read, and the whole state
// for kernels of the host that run within the step.
#pragma once

#include <type_traits>

#include "kernels/math/step_block.h"
#include "runtime/executor/kernel.h"

namespace act::cuda {

struct StepImage {
  StepBlock block;  // at the start, so that its address is the image's
  alignas(16) StepState state;
};
static_assert(std::is_trivially_copyable_v<StepImage>);

StepImage ImageOf(const StepState& state);

}  // namespace act::cuda
