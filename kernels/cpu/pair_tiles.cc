#include "kernels/cpu/pair_tiles.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/pair_product.h"
#include "kernels/cpu/pair_terms-inl.h"

namespace act {

#if defined(__x86_64__)
namespace {

// Sums that are kept in registers, 6 x 4 of 32. The multiplication broadcasts the left operand's words.
constexpr int64_t kStrip = 6;
constexpr int64_t kMostVectors = 4, kWidth = kMostVectors * kSlotLanes;
// Pairs of a sum before the next panel: 32 KiB of b, which stay in the first-level cache while all strips use them.
constexpr int64_t kDepth = 128;

// kRows rows of c by kVectors vectors. The last vector has the lanes `last`.
template <int kRows, int kVectors>
ACT_TARGET_BF16 inline void Tile(const PairTileProduct& p, const uint32_t* a, const uint32_t* b, float* c,
                                 int64_t pairs, __mmask16 last, bool add) {
  constexpr __mmask16 kAll = 0xFFFF;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] =
          add ? _mm512_maskz_loadu_ps(v + 1 == kVectors ? last : kAll, c + r * p.c_row + v * kSlotLanes)
              : _mm512_setzero_ps();
  const int64_t a_row = p.a_row, a_two_rows = p.a_two_rows, a_column = p.a_column, b_row = p.b_row;
  for (int64_t k = 0; k < pairs; ++k, a += a_column, b += b_row) {
    __m512bh right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      right[v] = (__m512bh)_mm512_maskz_loadu_epi32(v + 1 == kVectors ? last : kAll, b + v * kSlotLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const auto left = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[r / 2 * a_two_rows + r % 2 * a_row]));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(c + r * p.c_row + v * kSlotLanes, v + 1 == kVectors ? last : kAll, sum[r][v]);
}

// All rows of one panel of columns.
template <int kVectors>
ACT_TARGET_BF16 void Panel(const PairTileProduct& p, const uint32_t* a, const uint32_t* b, float* c,
                           int64_t pairs, __mmask16 last, bool add) {
  static_assert(kStrip % 2 == 0, "a strip begins with an even row");
  int64_t i = 0;
  for (; i + kStrip <= p.rows; i += kStrip, a += kStrip / 2 * p.a_two_rows, c += kStrip * p.c_row)
    Tile<kStrip, kVectors>(p, a, b, c, pairs, last, add);
  switch (p.rows - i) {
    case 5:
      return Tile<5, kVectors>(p, a, b, c, pairs, last, add);
    case 4:
      return Tile<4, kVectors>(p, a, b, c, pairs, last, add);
    case 3:
      return Tile<3, kVectors>(p, a, b, c, pairs, last, add);
    case 2:
      return Tile<2, kVectors>(p, a, b, c, pairs, last, add);
    case 1:
      return Tile<1, kVectors>(p, a, b, c, pairs, last, add);
    default:
      return;
  }
}

ACT_TARGET_BF16 void Multiply(const PairTileProduct& p) {
  constexpr decltype(&Panel<1>) kByVectors[] = {Panel<1>, Panel<2>, Panel<3>, Panel<4>};
  for (int64_t k = 0; k == 0 || k < p.pairs; k += kDepth)
    for (int64_t j = 0; j < p.columns; j += kWidth) {
      const int64_t columns = std::min(kWidth, p.columns - j), before = (columns - 1) / kSlotLanes;
      kByVectors[before](p, p.a + k * p.a_column, p.b + k * p.b_row + j, p.c + j,
                         std::min(kDepth, p.pairs - k), FirstLanes(columns - before * kSlotLanes),
                         p.add || k > 0);
    }
}

ACT_TARGET_BF16 void RoundAlongRow(const float* from, int64_t count, uint32_t* to) {
  const auto lanes = [](int64_t n) ACT_TARGET_BF16 { return FirstLanes(std::max<int64_t>(n, 0)); };
  for (int64_t j = 0; j < count; j += 2 * kSlotLanes) {
    const int64_t left = count - j;
    const __m512 lower = _mm512_maskz_loadu_ps(lanes(left), from + j),
                 upper = _mm512_maskz_loadu_ps(lanes(left - kSlotLanes), from + j + kSlotLanes);
    _mm512_mask_storeu_epi32(to + j / 2, lanes((left + 1) / 2), (__m512i)_mm512_cvtne2ps_pbh(upper, lower));
  }
}

ACT_TARGET_BF16 void AlongRowsAcross(const BFloat16* from, int64_t from_row, int64_t rows, int64_t count,
                                     uint32_t* to, int64_t to_row) {
  constexpr int64_t kSide = kSlotLanes;
  for (int64_t r = 0; r < rows; r += kSide)
    for (int64_t j = 0; j < count; j += 2 * kSide) {
      const int64_t here = std::min(kSide, rows - r), elements = std::min(2 * kSide, count - j);
      const auto lanes = static_cast<__mmask32>((uint64_t{1} << elements) - 1);
      __m512i v[kSide];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kSide; ++i)
        v[i] = i < here ? _mm512_maskz_loadu_epi16(lanes, from + (r + i) * from_row + j)
                        : _mm512_setzero_si512();
      TransposeWords(v);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kSide; ++i)
        if (2 * i < elements) _mm512_mask_storeu_epi32(to + (j / 2 + i) * to_row + r, FirstLanes(here), v[i]);
    }
}

}  // namespace

void MultiplyPairTiles(const PairTileProduct& product) { Multiply(product); }

void PairsAlongRow(const float* from, int64_t count, uint32_t* to) { RoundAlongRow(from, count, to); }

void PairsAlongRowsAcross(const BFloat16* from, int64_t from_row, int64_t rows, int64_t count, uint32_t* to,
                          int64_t to_row) {
  AlongRowsAcross(from, from_row, rows, count, to, to_row);
}

#else

void MultiplyPairTiles(const PairTileProduct&) { std::abort(); }
void PairsAlongRow(const float*, int64_t, uint32_t*) { std::abort(); }
void PairsAlongRowsAcross(const BFloat16*, int64_t, int64_t, int64_t, uint32_t*, int64_t) { std::abort(); }

#endif

void PairsAlongRow(const BFloat16* from, int64_t count, uint32_t* to) {
  if (count % 2 != 0) to[count / 2] = 0;
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(BFloat16));
}

template <class T>
void PairsOfRows(const T* first, const T* second, int64_t count, uint32_t* to) {
  const int64_t width = (count + kSlotLanes - 1) / kSlotLanes * kSlotLanes;
  PackPair(first, second, count, width, 1, 0, to);  // a panel as wide as the row
}
template void PairsOfRows(const float*, const float*, int64_t, uint32_t*);
template void PairsOfRows(const BFloat16*, const BFloat16*, int64_t, uint32_t*);

}  // namespace act
