// The instructions that a fused loop executes: opcodes of programs, and results of
// peephole rewrites.
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
  kSided,      // b > 0 ? max(a, c) : -max(a, c); what a code with a mask in its sign holds
  kSidedAbs,   // the same, with |a| for a
};
inline TileOp ToTileOp(Opcode op) { return static_cast<TileOp>(op); }

struct TileInstr {
  TileOp op = TileOp::kCopy;
  bool relu = false;  // max(result, 0), for add, sub, mul and the multiply-adds
  bool operator==(const TileInstr&) const = default;
};

}  // namespace act
