// Rewrites a program's instructions before it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/loops/register_form.h"
#include "kernels/loops/tile_op.h"
#include "runtime/plan/program.h"

namespace act {

struct LoopInstr {
  TileInstr instr;
  int32_t reg = -1;                // the register that it makes
  int32_t a = -1, b = -1, c = -1;  // operands
  float probability = 0;           // kDropout
  int32_t stream = 0;
  bool IsDropout() const { return instr.op == ToTileOp(Opcode::kDropout); }
  bool IsReduction() const {
    return instr.op == ToTileOp(Opcode::kRowSum) || instr.op == ToTileOp(Opcode::kRowMax) ||
           instr.op == TileOp::kRowDot;
  }
};

struct LoopProgram {
  std::vector<LoopInstr> instrs;
  std::vector<RegisterForm> registers;  // the program's, then those that were added
};

// The instructions on which outputs depend, in order, with these rewrites where both of a pair are
// computed equally often:
//   - a multiplication and the addition that alone reads it become one multiply-add,
//     or a row's dot product
//   - max(x, 0) joins the arithmetic before it
//   - max(|x|, c), negative where a mask is 0, is one instruction
//   - scales and shifts of a decoded number, whose code is less exact than the arithmetic,
//     become one of each, computed before the loop
// Stored values are computed as late as possible. forms[r] describes register r. A register that
// never varies is not part of such a pair.
LoopProgram OptimizeInstrs(const Program& program, std::vector<RegisterForm> forms);

}  // namespace act
