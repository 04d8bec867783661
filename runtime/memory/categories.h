// The purpose of each storage in a step, and the bytes of each category at each node.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/memory/layout.h"

namespace act {

// The category of each storage. Saved: written in the forward pass or by the user, and read at the
// first backward node or later.
std::vector<MemoryCategory> StorageCategories(const StepGraph& step);

using CategoryBytes = std::array<int64_t, kMemoryCategories>;

// Live bytes of each category at each node, without the host's arena. Each entry adds up to
// layout.timeline.
// `persistent_bytes` is the arena's, so constants that only the other step graph reads count as
// parameters.
std::vector<CategoryBytes> CategoryTimeline(const StepGraph& step, const StepLayout& layout,
                                            int64_t persistent_bytes);

}  // namespace act
