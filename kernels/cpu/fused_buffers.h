// What is decided of a fused loop once all its steps are known: which reads are needed, which results are
// made where they go, and which buffers registers share.
#pragma once

#include "kernels/cpu/fused_loop.h"

namespace act {

// A thread's scratch space for so many floats; returns where it starts, in floats.
int64_t AllocateScratch(FusedLoop& loop, int64_t floats);

void DropUnusedReads(FusedLoop& loop);

// Registers in buffers that float32 results of the node hold: FusedLoop::direct.
void FindDirectStores(const KernelSite& site, FusedLoop& loop);

// Linear scan over the steps: a buffer is free again behind the last step that reads it.
void AllocateBuffers(FusedLoop& loop);

}  // namespace act
