// Steps of a fused loop that run as one pass over a tile: values stay in vector registers from the step that makes
// them to the last that reads them, and only what other steps need lies in memory. The code is made for a loop when its
// kernel is bound, and has the bits of the steps run one by one.
#pragma once

#include <vector>

#include "kernels/cpu/fused_loop.h"

namespace act {

// Makes the runs of the loop's steps, in order: neighbours that do arithmetic, read or store whole tensors in float32 or
// bfloat16, decode bit planes, or add to sums. None if isa is kNone. `site` is that of the loop. What a
// walk needs to place them and the other steps, FusedLoop::periods and placed, is made in either case.
void CompileRuns(RunIsa isa, const KernelSite& site, FusedLoop& loop);

}  // namespace act
