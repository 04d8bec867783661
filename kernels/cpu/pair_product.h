// Matrix products whose operands are rounded to bfloat16, two terms of a sum at a time: vdpbf16ps
// multiplies them at twice the rate of float32 and adds in float32 (Intel 64 ISA, AVX512_BF16).
// Both operands are read by rows of terms, as a weight's gradient has them: sum over pixels of
// dy[pixel][r] x[pixel][c].
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/product_slots.h"
#include "kernels/math/convert.h"

namespace act {

// Whether this processor has the instruction. If not, nothing else here may be called.
bool MultipliesPairs();
// Whether it also has the rate that is named above. Intel's processors with AMX do not: there this
// instruction makes half the products of float32's in the same time. They are known by
// AVX512_FP16, which came with AMX and which a virtual machine without AMX still shows.
bool MultipliesPairsFast();

// Rows of the result in a panel of the left operand, and columns in a panel of the right one.
inline constexpr int64_t kPairRows = 8, kPairColumns = 48;

// Packs pair number `pair` of `depth`: elements of two terms, rounded to nearest even, the first
// term's in the lower half. Null means zeros. Panels of `width` elements (kPairRows, or a
// multiple of kSlotLanes) lie one after the other, `depth` pairs each. The last panel of the right operand is
// as narrow as whole vectors allow, and its elements after `count` are 0.
void PackPair(const float* first, const float* second, int64_t count, int64_t width, int64_t depth,
              int64_t pair, uint32_t* panels);
void PackPair(const BFloat16* first, const BFloat16* second, int64_t count, int64_t width, int64_t depth,
              int64_t pair, uint32_t* panels);

// Packs a row of pixels. Those outside are zeros.
template <class T>
void PackPairs(const PixelRow<T>& row, int64_t count, int64_t width, int64_t depth, int64_t pair,
               uint32_t* panels) {
  for (int64_t i = 0; i < row.pixels; i += 2)
    PackPair(row.AtOrNull(i), row.AtOrNull(i + 1), count, width, depth, pair + i / 2, panels);
}

// c[r * c_row + j] = sum over the runs. Pairs are added one after the other, to the present value
// of c with `add`. r < rows <= kPairRows, j < columns <= kPairColumns. The right panel's width is
// `columns` rounded up to kSlotLanes.
void MultiplyPairs(const uint32_t* left, const uint32_t* right, std::span<const SlotRun> runs, float* c,
                   int64_t c_row, int64_t rows, int64_t columns, bool add, Ahead& ahead);

// These products as PackedGradWeight (packed_grad_weight.h) takes them.
struct PairProduct {
  static constexpr const char *kName = "bfloat16 pairs", *kInstructions = "AVX512_BF16";
  static constexpr bool kRounds = true;
  static constexpr int64_t kTerms = 2;  // of a slot
  static constexpr int64_t kRows = kPairRows, kColumns = kPairColumns, kFewestRows = kPairRows;
  // Pairs of a block. The right operand's panel takes 24 KiB, so it stays in the first-level cache
  // while all rows use it.
  static constexpr int64_t kBlockSlots = 128;
  // Pairs are added one after the other, wherever a block ends.
  static constexpr bool kBlocksChangeBits = false;
  struct Scope {};

  static bool Available() { return MultipliesPairs(); }
  // Pairs from one panel to the next, for `pairs` pairs. It is an odd number of cache lines:
  // otherwise panels would compete for a few sets of the first-level cache.
  static int64_t LeftDepth(int64_t pairs) { return (pairs + 3) / 4 * 4 + 2; }
  static int64_t RightDepth(int64_t pairs) { return LeftDepth(pairs); }
  // How often one product may prefetch.
  static int64_t Prefetches(int64_t depth) { return depth; }

  // Packs neighbouring terms, `distance` elements apart, as pairs from number `pair` on. An odd last
  // term's partner is zero.
  template <class T>
  static void PackLeft(const T* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                       int64_t pair, uint32_t* panels) {
    for (int64_t i = 0; i < terms; i += 2, from += 2 * distance)
      PackPair(from, i + 1 < terms ? from + distance : nullptr, count, kRows, depth, pair + i / 2, panels);
  }
  template <class T>
  static void PackRight(const PixelRow<T>& row, int64_t count, int64_t depth, int64_t pair,
                        uint32_t* panels) {
    PackPairs(row, count, kColumns, depth, pair, panels);
  }
  static void Multiply(const uint32_t* left, int64_t, const uint32_t* right, std::span<const SlotRun> runs,
                       float* c, int64_t c_row, int64_t rows, int64_t columns, bool add, Ahead& ahead) {
    MultiplyPairs(left, right, runs, c, c_row, rows, columns, add, ahead);
  }
};

}  // namespace act
