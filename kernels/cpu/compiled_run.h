// Steps of a fused loop that run as one pass over a tile: values stay in vector registers from the step that makes
// them to the last that reads them, and only what other steps need lies in memory. The code is made for a loop when its
// kernel is bound, and has the bits of the steps run one by one.
#pragma once

#include <vector>

#include "kernels/cpu/fused_loop.h"

namespace act {

// Whether this processor, and the limit (instructions.h), have what compiled runs need: AVX-512.
bool CompilesRuns();

// The runs of the loop's steps, in order: neighbours that do arithmetic, read or store whole tensors in float32 or
// bfloat16, or add to sums. Nothing where the processor or the system does not allow it. `site` is that of the loop.
std::vector<CompiledRun> CompileRuns(const KernelSite& site, const FusedLoop& loop);

}  // namespace act
