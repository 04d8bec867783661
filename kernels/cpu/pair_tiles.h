// Matrix products of pairs of bfloat16 (pair_product.h) whose operands lie in the cache, on the calling thread: what
// tile_product.h is for float32. A word holds two terms of a sum, the first in its lower half. The left operand is read
// where it lies, and only the right one must have a row for each pair of terms.
#pragma once

#include <cstdint>

#include "kernels/math/convert.h"

namespace act {

// c[i * c_row + j] = sum over the pairs p of both products of left(i, p) and b[p * b_row + j], plus the present value
// of c with `add`. left(i, p) = a[i / 2 * a_two_rows + i % 2 * a_row + p * a_column]. Pairs are added one after the
// other. Where a sum has an odd number of terms, the left operand's last pair ends with a zero, and the right one's
// with any finite number. Denormal operands and results, below 2^-126, count as zero. Like pair_product.h, only for
// processors that multiply pairs.
struct PairTileProduct {
  const uint32_t* a;
  int64_t a_row, a_two_rows, a_column;
  const uint32_t* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t rows, columns, pairs;
  bool add;
};
void MultiplyPairTiles(const PairTileProduct& product);

// Neighbouring elements of a row as pairs, rounded to nearest even. An odd last one's partner is zero. `to` may be
// `from`.
void PairsAlongRow(const float* from, int64_t count, uint32_t* to);
void PairsAlongRow(const BFloat16* from, int64_t count, uint32_t* to);
// The same pairs of many rows, as columns: to[p * to_row + r] is pair p of row r.
void PairsAlongRowsAcross(const BFloat16* from, int64_t from_row, int64_t rows, int64_t count, uint32_t* to,
                          int64_t to_row);
// Elements of two rows as pairs, and zeros up to whole vectors. No second row means zeros. `to` may be a row.
template <class T>
void PairsOfRows(const T* first, const T* second, int64_t count, uint32_t* to);

}  // namespace act
