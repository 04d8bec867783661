// Rewrites of a program's instructions before it is run.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/loops/tile_op.h"
#include "runtime/plan/program.h"

namespace act {

// How a register differs over the space: a scalar or a column is computed once, a number a row by rows.
enum class Varies : uint8_t { kNever, kByRow, kByElement };

struct RegisterForm {
  Varies varies = Varies::kNever;
  int64_t period = 0;  // kNever: element i of the space reads number i % period; 1: a scalar, else a column
  bool operator==(const RegisterForm&) const = default;
};

// Of what an instruction makes, by the forms of its operands (-1: none). A row's value and a column's make an
// element's.
RegisterForm FormOf(Opcode op, int32_t a, int32_t b, int32_t c, const std::vector<RegisterForm>& forms);

struct LoopInstr {
  TileInstr instr;
  int32_t reg = -1;                // register it makes
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

// The instructions that outputs depend on, in order, where both of a pair are computed as often:
//   - a multiplication and the addition that alone reads it are one multiply-add, or a row's dot product
//   - max(x, 0) is part of the arithmetic before it
//   - max(|x|, c), negative where a mask is 0, is one instruction
//   - scales and shifts of a decoded number, whose code is less exact than the arithmetic, are one of each,
//     computed before the loop
// What is stored is made as late as it can be. forms[r]: of register r; what never varies is no part of such a
// pair.
LoopProgram OptimizeInstrs(const Program& program, std::vector<RegisterForm> forms);

}  // namespace act
