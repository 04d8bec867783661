// What each storage of a step is for, and the bytes of each category at each node.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/memory/layout.h"

namespace act {

// Of each storage. Saved: written in the forward pass or by the user, and read at the first backward node or
// later.
std::vector<MemoryCategory> StorageCategories(const StepGraph& step);

using CategoryBytes = std::array<int64_t, kMemoryCategories>;

// Live bytes of each category at each node, the host's arena left out; each entry adds up to layout.timeline.
// persistent_bytes: of the arena, so constants that only the other step graph reads count as parameters.
std::vector<CategoryBytes> CategoryTimeline(const StepGraph& step, const StepLayout& layout,
                                            int64_t persistent_bytes);

}  // namespace act
