// A matrix product whose operands are functions: for those that the libraries refuse. A block of 256 threads
// computes a tile of 64 by 64, 16 products of each element at a time; a thread has 4 by 4 elements.
#pragma once

#include "kernels/cuda/source/elements.h"
#include "kernels/cuda/source/tile_product_parameters.h"

namespace act::cuda {

// Rows and columns that exist, the tile's first, and the products first..end-1 of each element.
struct TileOf {
  int32_t rows = 0, columns = 0, row = 0, column = 0, first = 0, end = 0;
};

// y(i, j, sum over p of a(i, p) * b(p, j)) for each element (i, j) of the tile. kAlongRow: neighbours in
// memory lie along a row of the operand, otherwise along a column.
template <bool kAAlongRow, bool kBAlongRow, class A, class B, class Y>
ACT_DEVICE void TileProduct(const TileOf& t, const A& a, const B& b, const Y& y) {
  constexpr int32_t kPitch = kTile + 4;
  ACT_SHARED(float, a_tile, kTileDepth* kPitch);
  ACT_SHARED(float, b_tile, kTileDepth* kPitch);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t row = thread / 16 * 4, column = thread % 16;
  float total[4][4] = {}, sum[4][4] = {};
  for (int32_t p0 = t.first; p0 < t.end; p0 += kTileDepth) {
    SyncThreads();
    for (int32_t e = thread; e < kTile * kTileDepth; e += 256) {
      const int32_t ai = kAAlongRow ? e / kTileDepth : e % kTile,
                    ap = kAAlongRow ? e % kTileDepth : e / kTile;
      const bool in_a = t.row + ai < t.rows && p0 + ap < t.end;
      a_tile[ap * kPitch + ai] = in_a ? a(t.row + ai, p0 + ap) : 0;
      const int32_t bj = kBAlongRow ? e % kTile : e / kTileDepth,
                    bp = kBAlongRow ? e / kTile : e % kTileDepth;
      const bool in_b = t.column + bj < t.columns && p0 + bp < t.end;
      b_tile[bp * kPitch + bj] = in_b ? b(p0 + bp, t.column + bj) : 0;
    }
    SyncThreads();
    for (int32_t p = 0; p < kTileDepth; ++p) {
      float x[4], w[4];
      for (int32_t i = 0; i < 4; ++i) x[i] = a_tile[p * kPitch + row + i];
      for (int32_t j = 0; j < 4; ++j) w[j] = b_tile[p * kPitch + column + 16 * j];
      for (int32_t i = 0; i < 4; ++i)
        for (int32_t j = 0; j < 4; ++j) sum[i][j] = MulAdd(x[i], w[j], sum[i][j]);
    }
    if ((p0 - t.first) % kSumLength != kSumLength - kTileDepth) continue;
    for (int32_t i = 0; i < 4; ++i)
      for (int32_t j = 0; j < 4; ++j) total[i][j] += sum[i][j], sum[i][j] = 0;
  }
  for (int32_t i = 0; i < 4; ++i)
    for (int32_t j = 0; j < 4; ++j)
      if (t.row + row + i < t.rows && t.column + column + 16 * j < t.columns)
        y(t.row + row + i, t.column + column + 16 * j, total[i][j] + sum[i][j]);
}

}  // namespace act::cuda
