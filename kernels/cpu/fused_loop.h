// A program made ready to run at one shape: what each register is, where it lives, and the steps of one tile.
//
// A register is one of
//   scalar  one value, computed once by each thread before its first tile
//   column  depends on the trailing axes alone (period C): computed once over C plus one tile, so that any
//           tile finds its C values at consecutive addresses from offset % C on
//   row     one value a row, computed for the rows of a tile; where elements read it, spread over them in a
//           buffer or, if a tile is one row, as it is
//   direct  a float32 operand of the whole space, read where it is
//   buffer  a tile in the thread's scratch space, shared by registers that do not live at the same time
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/fused_tile.h"
#include "kernels/loops/operands.h"
#include "kernels/site/fused_shape.h"
#include "runtime/executor/kernel.h"

namespace act {

// Scratch space of a thread: on its stack, because it belongs in the first-level cache and not in the arena.
inline constexpr int64_t kScratchFloats = 96 * 1024;
inline constexpr int32_t kMaxLoopRegisters = 256;

enum class Place : uint8_t { kUnused, kScalar, kColumn, kRow, kDirect, kBuffer };

struct LoopRegister {
  Place place = Place::kUnused;
  int64_t period = 0;   // kColumn: elements
  int64_t scratch = 0;  // where it starts in the scratch space, floats (not kDirect)
  int32_t input = -1;   // operand of the node that it is; -1: none
  bool IsOnce() const { return place == Place::kScalar || place == Place::kColumn; }
};

enum class StepKind : uint8_t {
  kApply,
  kDropout,
  kRead,     // operand -> buffer: converted or broadcast
  kReadRow,  // operand of one value a row
  kReduce,   // a (and b) -> row: instr.op is kRowSum, kRowMax or kRowDot
  kSpread,   // row a -> buffer
  kDecode,   // coded operand -> buffer, times register a plus register b where there are such
  kStore,    // register -> result, where the register was not made there
  kEncode,
  kSum,  // of the register, or of its product with a
  kRowStore,
};

struct Step {
  StepKind kind = StepKind::kApply;
  TileInstr instr;                 // kApply
  int32_t reg = -1;                // made, or from kStore on read
  int32_t a = -1, b = -1, c = -1;  // operands
  int32_t tensor = -1;             // operand of the node (kRead.., kDecode), or result (from kStore on)
  float probability = 0;           // kDropout
  int32_t stream = 0;              // kDropout, kEncode, kDecode
  // kDecode (see DecodeEpilogue)
  bool mask = false, magnitude = false, keep_positive = false;
  bool IsScaled() const { return a >= 0 || b >= 0 || keep_positive; }
};

struct CodedTensor {
  Codec codec;
  CodeLayout layout;
};

// A float32 result whose register is made in place, unless an operand that is read later lies there.
struct DirectStore {
  int32_t output = -1, reg = -1;
  std::vector<int32_t> read_later;  // operands of the node that steps after the register's read in place
};

struct SumOutput {
  int32_t output = -1;
  int64_t columns = 0;
  int64_t scratch =
      -1;  // float32 sums in the scratch space, columns + a tile; -1: straight to the partial sums
  int64_t workspace = 0;  // byte offset of parts x columns double-precision partial sums
};

struct FusedLoop {
  FusedShape shape;
  int64_t walk_samples =
      1;  // tiles start anew in each sample where codes or dropout need it, else all is one sample
  int64_t walk_elements = 0;  // of one such sample
  int64_t tile = kTileElements;
  bool one_row = false;  // a tile is one row: what is one value a row is one value a tile
  int64_t tiles_per_sample = 0;
  int64_t tiles = 0;
  int64_t parts = 0;  // of the sums; 0 where there are none
  int64_t tail = 0;   // elements a column is repeated beyond its period: the longest tile

  std::vector<LoopRegister> registers;
  std::vector<float> constants;  // value of register first_constant + i
  int32_t first_constant = 0;
  std::vector<Step> once;            // scalars and columns
  std::vector<Step> steps;           // of each tile
  std::vector<ReadPattern> reads;    // per operand of the node; empty but for kRead
  std::vector<CodedTensor> inputs;   // per operand
  std::vector<CodedTensor> outputs;  // per result
  std::vector<DirectStore> direct;
  std::vector<SumOutput> sums;
  int64_t scratch_floats = 0;
  int64_t workspace_bytes = 0;
};

// Nullopt, with the reason in *why, where the program needs more registers or scratch space than a thread
// has.
std::optional<FusedLoop> MakeFusedLoop(const KernelSite& site, const FusedShape& shape, std::string* why);

}  // namespace act
