// How much scratch space a node's kernel may use. The plan promises its peak for machines it never
// saw, so this is a bound from shapes alone; at load a kernel that needs more gives way to fewer
// threads or another algorithm.
#pragma once

#include <cstdint>

#include "runtime/base/target.h"
#include "runtime/plan/graph.h"

namespace act {

// Bytes that the target's fast kernels of this node fit in, the CPU's on machines of up to 16
// threads, or nearly so (docs/kernels.md has the measurements), by the rule in the operator's row
// (runtime_op.cc). Never above limit_bytes; 0 sets no limit. Never falls when N grows. 0 where the
// node has another number of operands or results than its operator takes: no kernel runs it.
Dim WorkspaceBound(const Node& node, const Graph& graph, const Target& target, int64_t limit_bytes);

// Bytes of one part's statistics of `channels` columns: mean and squared deviations, in double for
// the part and in float for the rows at hand.
constexpr int64_t BatchNormPartBytes(int64_t channels) { return (channels * 32 + 63) / 64 * 64; }
// Bytes of one part's sums of `columns` columns in double.
constexpr int64_t ReducePartBytes(int64_t columns) { return (columns * 8 + 63) / 64 * 64; }

// Attention computes the scores of this many queries at a time.
inline constexpr int64_t kAttentionQueries = 60;
// Floats from one row of scores to the next: an odd number of cache lines, so that rows spread over
// the cache.
constexpr int64_t AttentionRowFloats(int64_t keys) { return ((keys + 15) / 16 | 1) * 16; }
// Scratch bytes of a thread. Forward: k transposed, a block of scores, a row of dropout. Backward:
// v transposed and the scores' gradients too, and a row of slopes where scores are capped.
int64_t AttentionThreadBytes(int64_t queries, int64_t keys, int64_t depth);
int64_t AttentionGradThreadBytes(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth,
                                 bool capped);

}  // namespace act
