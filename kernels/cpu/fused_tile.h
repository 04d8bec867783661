// What a fused loop does to a piece of a tile: vectorised loops over at most kTileElements floats,
// for the machine's best instruction set. Pointers need no alignment. Nothing is read or written
// past element n.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/loops/tile_op.h"

namespace act {

struct TileOperand {
  const float* data = nullptr;
  bool splat = false;  // data[0] stands for all elements
};

// dst[i] = op(a[i], b[i], c[i]). dst may be one of the operands. Does not handle kDropout, kRowSum
// and kRowMax.
void ApplyTile(TileInstr instr, size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c,
               float* dst);

// to[r] = op over row r: x[r * length .. (r + 1) * length), and the same of y. op: kRowSum, kRowMax
// or kRowDot.
void ReduceRowsTile(TileOp op, size_t rows, size_t length, const float* x, const float* y, float* to);
// x[r * length .. (r + 1) * length) = from[r].
void SpreadRowsTile(size_t rows, size_t length, const float* from, float* x);

// sum[i] += x[i]; n is not bounded.
void AddTile(size_t n, const float* x, float* sum);
// sum[i] += x[i] * y[i]
void AddProductTile(size_t n, const float* x, const float* y, float* sum);
// total[i] += sum[i]; sum[i] = 0.
void FlushTile(size_t n, float* sum, double* total);

}  // namespace act
