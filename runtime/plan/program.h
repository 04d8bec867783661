// The expression program of a fused loop: one pass over an iteration space, a tile at a time.
//
// Registers are numbered: first the inputs, then the constants, then one per instruction (SSA).
// Each register holds a tile of float32. A register whose operands are all columns or scalars is
// itself a column or scalar, and is computed once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/target.h"
#include "runtime/base/tensor_type.h"
#include "runtime/codec/codec.h"

namespace act {

enum class Opcode : uint8_t {
  kAdd,      // a + b
  kSub,      // a - b
  kMul,      // a * b
  kDiv,      // a / b
  kFma,      // a * b + c
  kMax,      // NaN in a or b gives NaN
  kMin,      // NaN in a or b gives NaN
  kNeg,      // -a
  kAbs,      // |a|
  kSqrt,     // sqrt(a)
  kExp,      // e^a
  kLog,      // ln(a)
  kTanh,     // tanh(a)
  kSigmoid,  // 1 / (1 + e^-a)
  kErf,      // erf(a)
  kPow,      // a^b
  kFloor,    // floor(a)
  kGreater,  // a > b ? 1 : 0
  kEqual,    // a == b ? 1 : 0
  kSelect,   // a != 0 ? b : c
  kDropout,  // keep(seed, step, stream, element) ? a / (1 - parameter) : 0
  kSin,      // sin(a)
  kCos,      // cos(a)
  kRowSum,   // sum of a over its row, in every element of the row
  kRowMax,   // largest of a in its row, likewise; a NaN in the row gives NaN
};

struct Instr {
  Opcode op = Opcode::kAdd;
  int32_t a = -1, b = -1, c = -1;  // operand registers; -1 where the opcode takes fewer
  float parameter = 0;             // kDropout: probability of dropping
  int32_t stream = 0;              // kDropout: random stream, see kernels/math/random.h
  bool operator==(const Instr&) const = default;
};

// A constant register: `value`, or value / extent(N) if extent is not 0 (the 1/n of a mean over the
// batch).
struct ProgramConstant {
  float value = 0;
  Dim extent = Dim(0);
  bool operator==(const ProgramConstant&) const = default;
};

// How input i of the node becomes register i. The operand broadcasts to the iteration space by
// ONNX's (numpy's) rules. Other dtypes convert to float32. With a codec, the operand is a code of
// the whole iteration space, and the loop decodes it.
struct ProgramInput {
  Codec codec;  // kind kNone: a plain tensor
  int32_t stream = 0;
  bool mask = false;  // 1 where the decoded value is positive, else 0; needs HoldsMask()
  bool operator==(const ProgramInput&) const = default;
};

enum class OutputKind : uint8_t {
  kStore,   // register -> tensor of the iteration space, in float32 or converted
  kEncode,  // register -> code of the iteration space
  // register summed over the leading axes -> tensor of the space's trailing axes ([]: sums all)
  kSum,
  // first element of each row -> float32 tensor of the leading axes (ones may follow, for row_axes)
  kRowStore,
};

struct ProgramOutput {
  OutputKind kind = OutputKind::kStore;
  int32_t reg = -1;
  Codec codec;         // kEncode
  int32_t stream = 0;  // kEncode: random stream
  bool operator==(const ProgramOutput&) const = default;
};

// Output i of the node is outputs[i]. After these come stores into the operands that the node
// mutates, in their order.
struct Program {
  Dims space;  // iteration space: dims of the result, row-major
  // A row is the elements of the last row_axes axes. kRowSum, kRowMax and kRowStore work on rows.
  int32_t row_axes = 0;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramConstant> constants;
  std::vector<Instr> instrs;
  std::vector<ProgramOutput> outputs;

  bool Empty() const { return outputs.empty(); }
  int32_t FirstConstant() const { return static_cast<int32_t>(inputs.size()); }
  int32_t FirstInstr() const { return static_cast<int32_t>(inputs.size() + constants.size()); }
  int32_t Registers() const { return FirstInstr() + static_cast<int32_t>(instrs.size()); }
  bool operator==(const Program&) const = default;
};

// The elements on which a loop works at a time. They take 4 KiB in float32, so that several tiles
// fit into the first-level cache. A multiple of every codec group.
inline constexpr int64_t kTileElements = 1024;
// Tiles of a program with rows hold whole rows, and at most this many elements.
inline constexpr int64_t kMaxRowTile = 4096;

// Elements of a row. Nullopt if they vary with the batch, if there are none, or if a tile cannot
// hold them.
std::optional<int64_t> RowElements(const Dims& space, int32_t row_axes);
// Elements of a tile: kTileElements. With rows, a tile has about as many elements, holds whole
// rows, and begins at a whole group of every code in the program. Nullopt if such a tile
// exceeds kMaxRowTile.
std::optional<int64_t> TileElements(const Program& program);

// Number of operand registers the opcode reads: 1, 2 or 3.
int Arity(Opcode op);
const char* ToString(Opcode op);

// What is wrong with an untrusted program. Nullopt if every register, codec and shape rule
// above holds.
std::optional<std::string> CheckProgram(const Program& program);

// The program as people read it, one register or output a line:
//   in1 = decode<uniform2,g256, stream 3>
//   r0 = fma(in0, in2, 0.5)
//   out0 = store(r0)
// Inputs that are plain tensors have no line. Constants stand where they are used.
std::string ToString(const Program& program);

// Scratch bytes that a target's fused kernel may need for outputs of these types: the partial sums
// of kSum outputs in double, in Target::LoopSumParts parts. Those of each output start at a multiple
// of the target's alignment. Independent of the number of threads.
Dim FusedWorkspaceBound(const Program& program, const std::vector<TensorType>& outputs, const Target& target);

}  // namespace act
