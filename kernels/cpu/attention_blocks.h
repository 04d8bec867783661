// What attention and its gradient share: blocks of queries, and the rows of scores of a block. The
// scores of a block with all keys lie in a thread's scratch space, which fits into the second-level
// cache. No other tensor of queries times keys exists.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cpu/attention_factors.h"
#include "kernels/cpu/attention_rows.h"
#include "kernels/site/attention_shape.h"
#include "runtime/executor/kernel.h"
#include "runtime/plan/workspace.h"

namespace act {

// The threads that work on a head: one, or all threads of a parallel region, which then call the same functions. What a
// member computes depends on no other part, so results are the same bits.
class AttentionTeam {
 public:
  explicit AttentionTeam(int threads) : threads_(threads) {}
  bool shares() const { return threads_ > 1; }
  int Member() const { return shares() ? omp_get_thread_num() : 0; }

  // Calls f(begin, end) for parts of 0..count-1, which begin at multiples of `step`, and waits for all of them.
  template <class F>
  void ForParts(int64_t count, int64_t step, F&& f) const {
    const int64_t steps = (count + step - 1) / step, parts = std::min<int64_t>(threads_, steps);
    const auto begin = [&](int64_t part) { return std::min(count, steps * part / parts * step); };
    if (!shares()) {
      if (count > 0) f(int64_t{0}, count);
      return;
    }
#pragma omp for schedule(static, 1)
    for (int64_t part = 0; part < parts; ++part) f(begin(part), begin(part + 1));
  }

 private:
  int threads_;
};

// Parts of keys are whole panels of a product, and parts of queries whole tiles (tile_product.h). Parts of other rows
// are even, since pairs are made of two.
inline constexpr int64_t kPartKeys = 64, kPartQueries = 6, kPartRows = 2;

// How a kernel's threads work in a workspace: each on a head of its own, or all on one head, if more can work then.
struct AttentionThreads {
  int count = 0;  // 0: not even one fits
  bool share = false;

  AttentionThreads(int most, int64_t workspace_bytes, const AttentionScratch& scratch, bool may_share);
  AttentionTeam Team() const { return AttentionTeam(share ? count : 1); }
  int64_t Bytes(const AttentionScratch& scratch) const;
  // Where the calling thread, of the team or alone, has its head's scratch space and its own.
  struct Places {
    float *head, *own;
  };
  Places PlacesIn(std::byte* workspace, const AttentionScratch& scratch) const;
  std::string Describe() const { return std::to_string(count) + (share ? " threads a head" : " threads"); }
};

// The keys with which a block of queries computes. The first is a multiple of kPartKeys. Rows of scores begin with it.
struct BlockKeys {
  int64_t first = 0, count = 0;
};

// Blocks of queries, and what a row of scores depends on. The operands of Attention are the
// kernel's inputs from `first` on.
struct AttentionBlocks {
  AttentionShape s;
  AttentionFactors factors;
  int64_t count = 0;  // blocks
  int64_t rows = 0;   // queries of a block; the last may have fewer
  int64_t row = 0;    // floats from one row of scores to the next
  size_t first = 0;

  AttentionBlocks(const AttentionShape& shape, size_t first_operand, DType operands);

  int64_t Begin(int64_t block) const { return block * rows; }
  int64_t Rows(int64_t block) const { return std::min(rows, s.queries - Begin(block)); }
  const TensorView& Operand(const KernelArgs& args, size_t i) const { return args.inputs[first + i]; }
  ScoreRow RowOf(const KernelArgs& args, int64_t slice, int64_t query, BlockKeys keys) const;

  // The keys that `causal` and `window` leave to any of the block's queries. All keys if a query that sees none
  // takes their mean or is NaN.
  BlockKeys Keys(const KernelArgs& args, int64_t slice, int64_t block) const;

  // Replaces scores by exponentials. Returns the factor that turns these into probabilities, and
  // whether the row sees a key.
  float Weights(const ScoreRow& r, float* scores, float* slope, bool* sees_a_key) const;

  // Writes the factors of dropout for a query's row of keys: 0, or 1 / (1 - probability).
  void Kept(const KernelArgs& args, int64_t batch, int64_t head, int64_t query, BlockKeys keys,
            float* kept) const;

  // Writes the keys begin..end-1 of x [keys, columns] as columns of the right factor y [columns, row], with zeros after
  // the last key. Floats are read through `tile`, and multiplied by `scale`. If factors are pairs, rows of scores are
  // multiplied by theirs instead (RowOf).
  void ReadAcross(const FloatTile& tile, const TensorRows& x, int64_t begin, int64_t end, float scale,
                  float* y) const;
};

// Keys with padding: products make whole vectors of scores.
inline int64_t PaddedKeys(int64_t count) { return (count + kRowPad - 1) / kRowPad * kRowPad; }

// The shape if these kernels accept it: the elements of a head must be contiguous. `o` is the result
// of Attention, or its gradient.
std::optional<AttentionShape> BlockedShape(const KernelSite& site, size_t first, const TensorView& o,
                                           std::string* why);

}  // namespace act
