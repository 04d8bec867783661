// The instructions that a fused loop executes: the opcodes of programs, and what peephole rewrites make of them.
#pragma once

#include <cstdint>

#include "runtime/plan/program.h"

namespace act {

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

struct TileInstr {
  TileOp op = TileOp::kCopy;
  bool relu = false;  // max(result, 0), for add, sub, mul and the multiply-adds
  bool operator==(const TileInstr&) const = default;
};

}  // namespace act
