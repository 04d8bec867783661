// What a fused loop does to a piece of a tile: vectorised loops over at most kTileElements floats, for the
// best instruction set of the machine. Pointers need no alignment, and nothing is read or written past
// element n.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/plan/program.h"

namespace act {

// The opcodes of programs, and those that peephole optimisation makes of them.
enum class TileOp : uint8_t {
  kLastOpcode = static_cast<uint8_t>(Opcode::kRowMax),
  kCopy,       // a
  kMulSub,     // a * b - c
  kNegMulAdd,  // c - a * b
  kRowDot,     // sum of a * b over the row
  kSided,     // max(a, c) where b > 0, its negative elsewhere: what a code with a mask in its sign is made of
  kSidedAbs,  // with |a| for a
};
inline TileOp ToTileOp(Opcode op) { return static_cast<TileOp>(op); }

struct TileOperand {
  const float* data = nullptr;
  bool splat = false;  // data[0] stands for all elements
};

struct TileInstr {
  TileOp op = TileOp::kCopy;
  bool relu = false;  // max(result, 0), for add, sub, mul and the multiply-adds
};

// dst[i] = op(a[i], b[i], c[i]). dst may be one of the operands. kDropout, kRowSum and kRowMax are not done
// here.
void ApplyTile(TileInstr instr, size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c,
               float* dst);

// to[r] = op over row r: x[r * length .. (r + 1) * length), and of y likewise. op: kRowSum, kRowMax, kRowDot.
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
