// How much scratch space a node's kernel may use. The plan promises its peak for machines it never saw, so
// this is a bound from shapes alone; at load a kernel that needs more gives way to fewer threads or another
// algorithm.
#pragma once

#include <cstdint>

#include "runtime/plan/graph.h"

namespace act {

// Bytes that the fast kernels of this node fit in on machines of up to 16 threads, or nearly so
// (docs/kernels.md has the measurements). Never above limit_bytes; 0 sets no limit. Never falls when N grows.
Dim WorkspaceBound(const Node& node, const Graph& graph, int64_t limit_bytes);

// Sums over rows are made in this many parts, fixed by the shape and not by the thread count, and the parts
// are added in order: the same bits on any number of threads.
inline constexpr int64_t kRowParts = 16;

// Bytes of one part's statistics of `channels` columns: mean and squared deviations, in double for the part
// and in float for the rows at hand.
constexpr int64_t BatchNormPartBytes(int64_t channels) { return (channels * 24 + 63) / 64 * 64; }
// Bytes of one part's sums of `columns` columns in double.
constexpr int64_t ReducePartBytes(int64_t columns) { return (columns * 8 + 63) / 64 * 64; }

}  // namespace act
