// What attention and its gradient share: blocks of queries, and the rows of scores of a block. The
// scores of a block with all keys lie in a thread's scratch space, which fits into the second-level
// cache. No other tensor of queries times keys exists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cpu/attention_rows.h"
#include "kernels/site/attention_shape.h"
#include "runtime/executor/kernel.h"

namespace act {

// Blocks of queries, and what a row of scores depends on. The operands of Attention are the
// kernel's inputs from `first` on.
struct AttentionBlocks {
  AttentionShape s;
  int64_t count = 0;  // blocks
  int64_t rows = 0;   // queries of a block; the last may have fewer
  int64_t row = 0;    // floats from one row of scores to the next
  size_t first = 0;

  AttentionBlocks(const AttentionShape& shape, size_t first_operand);

  int64_t Begin(int64_t block) const { return block * rows; }
  int64_t Rows(int64_t block) const { return std::min(rows, s.queries - Begin(block)); }
  const TensorView& Operand(const KernelArgs& args, size_t i) const { return args.inputs[first + i]; }
  ScoreRow RowOf(const KernelArgs& args, int64_t slice, int64_t query, int64_t keys) const;

  // The keys with which the block computes: those that its last query sees. All keys if a query
  // that sees none takes their mean.
  int64_t Keys(const KernelArgs& args, int64_t slice, int64_t block) const;

  // Replaces scores by exponentials. Returns the factor that turns these into probabilities, and
  // whether the row sees a key.
  float Weights(const ScoreRow& r, float* scores, float* slope, bool* sees_a_key) const;

  // Writes the factors of dropout for a query's row of keys: 0, or 1 / (1 - probability).
  void Kept(const KernelArgs& args, int64_t batch, int64_t head, int64_t query, int64_t keys,
            float* kept) const;

  // Writes [keys, columns] as [columns, row], times a factor, with zeros after the keys.
  void Transpose(const float* x, int64_t x_row, int64_t columns, float factor, float* y) const;
};

// Rows of a matrix in float32: in the tensor itself, or in scratch space if the tensor is bfloat16.
struct FloatTile {
  float* at = nullptr;
  int64_t row = 0;
};
// What a product reads: rows from element `at` of `tensor` on, widened to `scratch` if need be.
FloatTile ReadTile(const TensorView& tensor, int64_t at, int64_t row, int64_t rows, int64_t columns,
                   float* scratch);
// Where sums of a result's rows are made, and where they go when they are complete. Each row is
// multiplied by its factor, unless that is null.
FloatTile SumTile(const TensorView& tensor, int64_t at, int64_t row, int64_t columns, float* scratch);
void StoreTile(const FloatTile& tile, const TensorView& tensor, int64_t at, int64_t row, int64_t rows,
               int64_t columns, const float* factors);

// Keys with padding: products make whole vectors of scores.
inline int64_t PaddedKeys(int64_t count) { return (count + kRowPad - 1) / kRowPad * kRowPad; }

// The shape if these kernels accept it: the elements of a head must be contiguous. `o` is the result
// of Attention, or its gradient.
std::optional<AttentionShape> BlockedShape(const KernelSite& site, size_t first, const TensorView& o,
                                           std::string* why);

// Threads of at most site.threads whose scratch space fits into `bytes`.
int ThreadsThatFit(const KernelSite& site, int64_t bytes, int64_t thread_bytes);

}  // namespace act
