// What stands around a unit's work in a fused loop's kernel (fused_body.h).
#pragma once

#include <string>

#include "kernels/cuda/fused_plan.h"

namespace act::cuda {

// Lanes, streams of random numbers, shared memory, sums and scalars: made once for the kernel.
std::string FusedPrologue(const CudaLoop& loop);
// The walk over the units that a team takes, and how teams add their sums.
std::string FusedWalk(const CudaLoop& loop);

}  // namespace act::cuda
