// Matrix products of operands that lie in the cache, on the calling thread, for kernels that work
// block by block. They need no scratch space and accept any row strides.
#pragma once

#include <cstdint>

namespace act {

// c[i * c_row + j] = sum over p of a[i * a_row + p * a_column] * b[p * b_row + j], plus the present
// value of c with `add`. With a_row = 1 the left operand is read transposed.
struct TileProduct {
  const float* a;
  int64_t a_row, a_column;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t rows, columns, depth;
  bool add;
};
void Multiply(const TileProduct& product);

// Columns that a product computes side by side, at most kMostTileColumns. A right operand that is
// stored in panels of as many columns is read in order.
inline constexpr int64_t kMostTileColumns = 64;
int64_t TileColumns();

// y[c * y_row + r] = scale * x[r * x_row + c]
void TransposeScaled(const float* x, int64_t x_row, int64_t rows, int64_t columns, float scale, float* y,
                     int64_t y_row);

}  // namespace act
