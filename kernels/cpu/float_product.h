// Matrix products of float32 operands that are packed as for bfloat16 (pair_product.h): the sum over pixels of
// dy[pixel][r] x[pixel][c], with one pixel to a slot. tile_product.h multiplies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cpu/product_slots.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/math/convert.h"
#include "runtime/base/dim.h"

namespace act {

// Packs `terms` terms, `distance` elements apart, of `count` channels each: slots `slot` on of panels of
// `width` channels, `depth` slots each. `width` is a multiple of kSlotLanes. The last panel is as narrow as whole
// vectors of that many allow, and its channels after `count` are 0.
void PackFloats(const float* from, int64_t distance, int64_t terms, int64_t count, int64_t width,
                int64_t depth, int64_t slot, float* panels);
void PackFloats(const BFloat16* from, int64_t distance, int64_t terms, int64_t count, int64_t width,
                int64_t depth, int64_t slot, float* panels);
// The same, of terms that are 0.
void PackZeros(int64_t terms, int64_t count, int64_t width, int64_t depth, int64_t slot, float* panels);

// These products as PackedGradWeight (packed_grad_weight.h) takes them. kWidth: the columns that
// tile_product.h computes side by side.
template <int64_t kWidth>
struct FloatProduct {
  static constexpr const char *kName = "float32 packed", *kInstructions = "AVX2";
  static constexpr bool kRounds = false;
  static constexpr int64_t kTerms = 1;  // of a slot
  // The left panel takes 8 KiB and the right one 8 or 32, so both stay in the first- or second-level cache
  // while the sums of their channels are added up.
  static constexpr int64_t kRows = kSlotLanes, kColumns = kWidth, kFewestRows = 6;
  static constexpr int64_t kBlockSlots = 128;
  static constexpr bool kBlocksChangeBits = false;
  struct Scope {};

  static bool Available() { return TileColumns() == kWidth; }
  // An odd number of cache lines, so that panels do not compete for a few sets of the first-level cache.
  static int64_t LeftDepth(int64_t slots) { return slots | 1; }
  static int64_t RightDepth(int64_t slots) { return slots | 1; }
  static int64_t Prefetches(int64_t depth) { return depth / kSlotsOfPrefetch; }

  template <class T>
  static void PackLeft(const T* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                       int64_t slot, uint32_t* panels) {
    PackFloats(from, distance, terms, count, kRows, depth, slot, reinterpret_cast<float*>(panels));
  }
  template <class T>
  static void PackRight(const PixelRow<T>& row, int64_t count, int64_t depth, int64_t slot,
                        uint32_t* panels) {
    auto* to = reinterpret_cast<float*>(panels);
    const auto [first, last] = row.inside;
    PackZeros(first, count, kColumns, depth, slot, to);
    if (first < last)
      PackFloats(row.At(first), row.distance, last - first, count, kColumns, depth, slot + first, to);
    PackZeros(row.pixels - last, count, kColumns, depth, slot + last, to);
  }
  static void Multiply(const uint32_t* left, int64_t, const uint32_t* right, std::span<const SlotRun> runs,
                       float* c, int64_t c_row, int64_t rows, int64_t columns, bool add, Ahead& ahead) {
    const int64_t right_row = RoundUp(columns, kSlotLanes);
    if (runs.empty() && !add)
      for (int64_t r = 0; r < rows; ++r) std::fill_n(c + r * c_row, columns, 0.0f);
    for (const SlotRun& run : runs) {
      for (int64_t k = 0; k < run.slots; k += kSlotsOfPrefetch) Prefetch(ahead);
      act::Multiply({.a = reinterpret_cast<const float*>(left) + run.a * kRows,
                     .a_row = 1,
                     .a_column = kRows,
                     .b = reinterpret_cast<const float*>(right) + run.b * right_row,
                     .b_row = right_row,
                     .c = c,
                     .c_row = c_row,
                     .rows = rows,
                     .columns = columns,
                     .depth = run.slots,
                     .add = add});
      add = true;
    }
  }

 private:
  static constexpr int64_t kSlotsOfPrefetch = 8;
};

using NarrowFloatProduct = FloatProduct<16>;  // AVX2
using WideFloatProduct = FloatProduct<64>;    // AVX-512
// Whether this processor runs one of them.
inline bool MultipliesFloats() { return NarrowFloatProduct::Available() || WideFloatProduct::Available(); }

}  // namespace act
