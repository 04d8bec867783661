// How much scratch space a node's kernel may use. The plan promises its peak for machines that it
// has never seen, so this is a bound from shapes alone. At load, a kernel that needs more falls
// back to fewer threads or another algorithm.
#pragma once

#include <cstdint>

#include "runtime/base/target.h"
#include "runtime/plan/graph.h"

namespace act {

// Bytes that suffice, or nearly so, for the target's fast kernels of this node (the CPU's: on
// machines of up to 16 threads; docs/kernels.md has the measurements), by the target's rule in the
// operator's row (runtime_op.cc). Never above limit_bytes, where 0 means no limit. Never falls when
// N grows. 0 if the node has another number of operands or results than its operator takes, since
// no kernel runs it.
CappedDim WorkspaceBound(const Node& node, const Graph& graph, const Target& target, int64_t limit_bytes);

// Bytes of one part's statistics of `channels` columns: mean and squared deviations, in double for
// the part and in float for the current rows.
constexpr int64_t BatchNormPartBytes(int64_t channels) { return (channels * 32 + 63) / 64 * 64; }
// Bytes of one part's sums of `columns` columns in double.
constexpr int64_t ReducePartBytes(int64_t columns) { return (columns * 8 + 63) / 64 * 64; }
// On a card: bytes of one column in one of Target::RowSumParts parts, where there are several. A sum;
// the moments and the range of a channel; a loss, with the weights of its rows.
inline constexpr int64_t kCudaSumBytes = 8, kCudaMomentsBytes = 24, kCudaLossBytes = 16;

// The gradient of attention on a card: bytes of the statistics of a query, and of the gaps between what lies in the
// scratch space.
inline constexpr int64_t kCudaQueryBytes = 12, kCudaAttentionGaps = 1024;
// Bytes of the parts of the gradient of a bias with so many elements. One part of a result in float32 is the result.
int64_t CudaAttentionPartBytes(int64_t elements, bool is_float32);

// Of a sort of pairs of 32 bits on a card: pairs that one block sorts, and the bytes of its counts by digit.
inline constexpr int64_t kSortedByBlock = 2048, kSortCountBytes = 1024;
// What lies in the scratch space there is aligned to this.
inline constexpr int64_t kCudaAligned = 256;
constexpr int64_t CudaAligned(int64_t bytes) {
  return (bytes + kCudaAligned - 1) / kCudaAligned * kCudaAligned;
}
// The pairs, twice, and the counts of each block.
constexpr int64_t CudaSortBytes(int64_t pairs) {
  return 4 * CudaAligned(pairs * 4) + CeilDiv(pairs, kSortedByBlock) * kSortCountBytes;
}

// Of a scatter on a card: rows that one thread combines, and the bytes of rows of `row_bytes` bytes. These are the
// targets and the places of the rows, which are sorted, and what two of the targets in each chunk have received.
inline constexpr int64_t kCombinedByThread = 32;
constexpr int64_t CudaScatterBytes(int64_t rows, int64_t row_bytes) {
  return CudaSortBytes(rows) + 2 * CudaAligned(CeilDiv(rows, kCombinedByThread) * row_bytes);
}

// Of the gradient of what a GridSample reads on a card: pixels that a point adds to, if `taps` elements of each axis
// are mixed; and the bytes of so many parts, which are pairs that are sorted, and weights in double.
constexpr int64_t GridPartsOf(int64_t taps, int64_t axes) {
  int64_t parts = 1;
  for (int64_t a = 0; a < axes; ++a) parts *= taps;
  return parts;
}
constexpr int64_t CudaGridGradientBytes(int64_t parts) {
  return CudaSortBytes(parts) + CudaAligned(parts * 8);
}

// Whether TopK on a card sorts its rows rather than to select k elements one after the other.
constexpr bool CudaTopKSorts(int64_t extent, int64_t k) { return extent > 256 && k > 16; }

// Of NonZero on a card: elements that one block counts, and the bytes of the counts and of their sum.
inline constexpr int64_t kFoundByBlock = 2048;
constexpr int64_t CudaNonZeroBytes(int64_t elements) { return (CeilDiv(elements, kFoundByBlock) + 1) * 4; }

// Convolutions of bfloat16 that run in float32 widen activations in a few chunks of at most this many
// bytes together: for a thread as many as its second-level cache holds, or a row if that takes more.
// Weight gradients use half of it for chunks, and half for sums of threads. Where a window has one tap
// weights are large beside activations, and chunks are as fast if they are smaller.
constexpr int64_t WidenedConvBytes(int64_t taps) { return (taps == 1 ? int64_t{4} : int64_t{6}) << 20; }
constexpr int64_t WidenedThreadBytes(int64_t taps) { return (taps == 1 ? int64_t{3} : int64_t{4}) << 19; }

// Attention computes the scores of this many queries at a time.
inline constexpr int64_t kAttentionQueries = 60;
// Its gradient in bfloat16 has room for an even number of them, since some processors multiply pairs.
constexpr int64_t EvenQueries(int64_t queries) { return (queries + 1) / 2 * 2; }
static_assert(EvenQueries(kAttentionQueries) == kAttentionQueries);
// Floats from one row of scores to the next. It is an odd number of cache lines, so that rows
// spread over the cache.
constexpr int64_t AttentionRowFloats(int64_t keys) { return ((keys + 15) / 16 | 1) * 16; }
// The same for blocks of the operands of a product.
constexpr int64_t ProductRowFloats(int64_t columns) { return AttentionRowFloats(columns); }
// Blocks of a product in float32: of a, rows by terms, for each thread; of b, in bytes, for all; and
// the columns of sums, if these lie apart from the result.
inline constexpr int64_t kProductRows = 96, kProductDepth = 384, kProductColumns = 384,
                         kProductBytes = 2 << 20;
// A float32 factor beside one in bfloat16 gets room for a rounded copy of at most so many bytes.
// A larger one is rounded in pieces of so many bytes. If these are parts of the sum, a bfloat16 result has room for
// float32 sums of some rows.
inline constexpr int64_t kRoundedFactorBytes = 16 << 20, kRoundedSumBytes = 8 << 20;
// Weights of a convolution that are a code are decoded some rows at a time: so many bytes in float32 or, if those of a
// block of so many rows are more, such a block.
inline constexpr int64_t kCodedRowsBytes = 2 << 20, kCodedRows = 64;
// A factor that is a code is decoded in pieces: on a CPU of at most so many bytes in bfloat16 for each thread, and so
// many for all; on a card of so many bytes in the type of the other factor.
inline constexpr int64_t kCodedPieceBytes = 512 << 10, kCodedPiecesBytes = 8 << 20, kCudaCodedPieceBytes = 16 << 20;
// Scratch bytes of attention.
struct AttentionScratch {
  // Of a head of keys. Forward: k transposed, a block of scores. Backward: k and v transposed, a copy of k, a block of
  // scores and of their gradients. If operands are bfloat16, also float32 copies of what is multiplied, and sums that
  // are rounded when they are complete. Forward: k, then v; a block of q and of the result. Backward: k and its
  // gradient, v's gradient; a block of q, its gradient and that of the result.
  int64_t head = 0;
  // Of each thread that works on it: a row of dropout. Backward also one of slopes, if scores are capped.
  int64_t thread = 0;

  static AttentionScratch Forward(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth,
                                  bool bfloat16);
  static AttentionScratch Backward(int64_t queries, int64_t keys, int64_t depth, int64_t value_depth,
                                   bool capped, bool bfloat16);
};

}  // namespace act
