// A program made ready to run at one shape: what each register is, where it lives, and the steps of
// one tile.
//
// A register is one of
//   scalar  one value. Each thread computes it once, before its first tile.
//   column  depends on the trailing axes alone (period C). It is computed once over C plus one
//           tile, so that any tile finds its C values at consecutive addresses, from offset % C on.
//   row     one value a row, computed for the rows of a tile. Where elements read it, it is spread
//           over them in a buffer, or read as it is if a tile is one row.
//   direct  a float32 operand of the whole space, read in place
//   buffer  a tile in the thread's scratch space, shared by registers that are not live together
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/run_code.h"
#include "kernels/loops/operands.h"
#include "kernels/site/fused_shape.h"
#include "runtime/executor/kernel.h"

namespace act {

// Scratch space of a thread. It is on the stack and not in the arena, because it should stay in the
// first-level cache.
inline constexpr int64_t kScratchFloats = 96 * 1024;
inline constexpr int32_t kMaxLoopRegisters = 256;

enum class Place : uint8_t { kUnused, kScalar, kColumn, kRow, kDirect, kBuffer };

struct LoopRegister {
  Place place = Place::kUnused;
  int64_t period = 0;   // kColumn: elements
  int64_t scratch = 0;  // where it starts in the scratch space, floats (not kDirect)
  int32_t input = -1;   // the node's operand that this is; -1: none
  bool IsOnce() const { return place == Place::kScalar || place == Place::kColumn; }
};

enum class StepKind : uint8_t {
  kApply,
  kDropout,
  kRead,     // operand -> buffer: converted or broadcast
  kReadRow,  // operand of one value a row
  kReduce,   // a (and b) -> row: instr.op is kRowSum, kRowMax or kRowDot
  kSpread,   // row a -> buffer
  kDecode,   // coded operand -> buffer, times register a, plus register b (-1: none)
  kStore,    // register -> result, unless the register was made there
  kEncode,
  kSum,  // adds up the register, or its product with a
  kRowStore,
};

struct Step {
  StepKind kind = StepKind::kApply;
  TileInstr instr;                 // kApply
  int32_t reg = -1;                // the register that is made; from kStore on: that is read
  int32_t a = -1, b = -1, c = -1;  // operands
  // operand of the node (kRead.., kDecode), or result (from kStore on)
  int32_t tensor = -1;
  float probability = 0;  // kDropout
  int32_t stream = 0;     // kDropout, kEncode, kDecode
  // kDecode (see DecodeEpilogue)
  bool mask = false, magnitude = false, keep_positive = false;
  bool IsScaled() const { return a >= 0 || b >= 0 || keep_positive; }
  // The register that it makes; -1: none.
  int32_t Made() const { return kind < StepKind::kStore ? reg : -1; }
  // The registers that it reads; -1: none.
  std::array<int32_t, 4> Read() const { return {a, b, c, kind >= StepKind::kStore ? reg : -1}; }
};

struct CodedTensor {
  Codec codec;
  CodeLayout layout;
};

// A float32 result in which its register is made, unless an operand that is read later lies there.
struct DirectStore {
  int32_t output = -1, reg = -1;
  std::vector<int32_t> read_later;  // operands that later steps read in place
};

struct SumOutput {
  int32_t output = -1;
  int64_t columns = 0;
  int64_t scratch =
      -1;  // float32 sums in the scratch space, columns + a tile; -1: straight to the partial sums
  int64_t workspace = 0;  // byte offset of parts x columns double-precision partial sums
};

// Of all runs of a loop together: streams, and periods of columns and sums. Of one run: codes.
inline constexpr size_t kMostRunStreams = 128, kMostPeriods = 8, kMostRunCodes = 8;

// What a compiled run reads or writes, as addresses of a tile's first element.
struct RunStream {
  // A register, a bfloat16 operand, a result, a sum, or one of the run's codes, of this number.
  enum Kind : uint8_t { kRegister, kOperand, kResult, kSum, kCode } kind = kRegister;
  int32_t number = -1;
  bool operator==(const RunStream&) const = default;
};

// A coded operand whose planes a run reads. form: of its numbers, if the run reads numbers and not its mask alone.
struct RunPlanes {
  int32_t tensor = -1, stream = 0;
  PlaneForm form;
};

// Steps first .. last - 1 as one pass (compiled_run.h).
struct CompiledRun {
  size_t first = 0, last = 0;
  std::vector<RunStream> streams;
  std::vector<RunPlanes> codes;
  int64_t block = 0;  // BlockElements
  std::shared_ptr<const RunCode> code;
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
  int64_t parts = 0;  // of the sums; 0: there are none
  int64_t tail = 0;   // elements by which a column continues beyond its period: the longest tile

  std::vector<LoopRegister> registers;
  std::vector<float> constants;  // value of register first_constant + i
  int32_t first_constant = 0;
  std::vector<Step> once;         // scalars and columns
  std::vector<Step> steps;        // of each tile
  std::vector<CompiledRun> runs;  // of these
  std::vector<int64_t> periods;   // all that its columns and sums have, each once
  // Registers whose address depends on the tile, of those that steps outside of runs use.
  std::vector<int32_t> placed;
  std::vector<ReadPattern> reads;    // per operand of the node; empty except for kRead
  std::vector<CodedTensor> inputs;   // per operand
  std::vector<CodedTensor> outputs;  // per result
  std::vector<DirectStore> direct;
  std::vector<SumOutput> sums;
  int64_t scratch_floats = 0;
  int64_t workspace_bytes = 0;
};

// Nullopt, with the reason in *why, if the program needs more registers or scratch space than a
// thread has.
std::optional<FusedLoop> MakeFusedLoop(const KernelSite& site, const FusedShape& shape, std::string* why);

}  // namespace act
