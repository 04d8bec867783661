// Decisions about a fused loop once all its steps are known: which reads are needed, which results
// are computed in place, and which registers share a buffer.
#pragma once

#include "kernels/cpu/fused_loop.h"

namespace act {

// Allocates this many floats of a thread's scratch space. Returns where they start, in floats.
int64_t AllocateScratch(FusedLoop& loop, int64_t floats);

void DropUnusedReads(FusedLoop& loop);

// Moves each kRead to right before the first step that reads its register, so that few buffers are in use
// at a time. It stays before all stores, because a result may have an operand's memory.
void ReadLate(FusedLoop& loop);

// Finds the registers whose buffers are float32 results of the node: FusedLoop::direct.
void FindDirectStores(const KernelSite& site, FusedLoop& loop);

// Linear scan over the steps. A buffer is free again after the last step that reads it.
void AllocateBuffers(FusedLoop& loop);

}  // namespace act
