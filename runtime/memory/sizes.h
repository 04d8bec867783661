// The bytes of values and of scratch space at a batch size, as the arena counts them.
#pragma once

#include <cstdint>

#include "runtime/plan/plan.h"

namespace act {

// Of a value that exists in this loop over samples alone (an index; -1: it exists whole), rounded up to `alignment`.
// Evaluated axis by axis, as the executor does it. Never negative; saturates.
int64_t StorageBytes(const Graph& graph, int32_t loop, const TensorType& type, int64_t batch,
                     int64_t alignment);

// Scratch space of a node of this loop (-1: of none). In tiles, after the kernel's own scratch space comes room for
// each sum over samples: the part of one tile, before it is added to the others.
int64_t WorkspaceBytes(const Graph& graph, const Node& node, int32_t loop, int64_t batch, TargetKind target);

}  // namespace act
