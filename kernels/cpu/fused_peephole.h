// Rewrites of a program's instructions before it is run.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/fused_tile.h"
#include "runtime/plan/program.h"

namespace act {

struct LoopInstr {
  TileInstr instr;
  int32_t reg = -1;                // register it makes
  int32_t a = -1, b = -1, c = -1;  // operands
  float probability = 0;           // kDropout
  int32_t stream = 0;
  bool IsDropout() const { return instr.op == ToTileOp(Opcode::kDropout); }
};

// The instructions that outputs depend on, in order, with a multiplication and the addition that alone reads
// it made one multiply-add, and max(x, 0) made part of the arithmetic before it. varies[r]: register r
// differs from element to element; what does not is computed once and is no part of such a pair.
std::vector<LoopInstr> OptimizeInstrs(const Program& program, const std::vector<bool>& varies);

}  // namespace act
