// Matrix products of pairs of bfloat16 (pair_product.h) by AMX: a tile is a register of 16 rows of 64
// bytes, and tdpbf16ps multiplies 16 rows by 16 pairs with 16 pairs by 16 columns (Intel 64 ISA,
// AMX-BF16). The right operand is packed as for PairProduct. The left one is transposed: a row's pairs
// lie one after the other.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/pair_product.h"

namespace act {

struct AmxProduct {
  static constexpr const char *kName = "bfloat16 tiles", *kInstructions = "AMX-BF16";
  static constexpr bool kRounds = true;
  static constexpr int64_t kTerms = 2;  // of a slot
  // Four tiles of sums, two of each operand.
  static constexpr int64_t kRows = 32, kColumns = 32, kFewestRows = 8;
  // The right operand's panel takes 32 KiB, so it stays in the first-level cache while all rows use it.
  static constexpr int64_t kBlockSlots = 256;
  // The pairs of a tile are added up first, and their sum to the others. So bits depend on where a tile
  // of pairs begins.
  static constexpr bool kBlocksChangeBits = true;
  static constexpr int64_t kTilePairs = 16;

  // While it lives, its thread's tile registers have the shape that Multiply expects.
  class Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  // Whether the processor, the system and the limit (instructions.h) have it. If not, nothing else here
  // may be called.
  static bool Available();

  // Pairs from one row to the next: an odd number of cache lines, so that the rows of a tile do not
  // compete for a few sets of the first-level cache.
  static int64_t LeftDepth(int64_t pairs) { return ((pairs + kTilePairs - 1) / kTilePairs | 1) * kTilePairs; }
  static int64_t RightDepth(int64_t pairs) { return pairs; }
  static int64_t Prefetches(int64_t depth) { return depth / kTilePairs * kPrefetches; }

  // As PairProduct's, into rows of `depth` pairs.
  static void PackLeft(const float* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                       int64_t pair, uint32_t* rows);
  static void PackLeft(const BFloat16* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                       int64_t pair, uint32_t* rows);
  template <class T>
  static void PackRight(const PixelRow<T>& row, int64_t count, int64_t depth, int64_t pair,
                        uint32_t* panels) {
    PackPairs(row, count, kColumns, depth, pair, panels);
  }
  // As MultiplyPairs: c[r * c_row + j] = sum over the runs. r < rows <= kRows, j < columns <= kColumns.
  // Numbers that are denormal, and results that would be, count as zero.
  static void Multiply(const uint32_t* left, int64_t depth, const uint32_t* right,
                       std::span<const SlotRun> runs, float* c, int64_t c_row, int64_t rows, int64_t columns,
                       bool add, Ahead& ahead);

 private:
  // Lines that are prefetched with 16 pairs.
  static constexpr int64_t kPrefetches = 4;
};

}  // namespace act
