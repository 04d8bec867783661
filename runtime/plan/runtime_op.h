// The operators that a plan may contain, one row for each in runtime_op.cc: what the runtime must
// know of an operator before any kernel sees it. docs/runtime_ops.md describes the operands; the
// kernels do the work.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/target.h"
#include "runtime/plan/graph.h"

namespace act {

// Operators that code other than their own kernels makes or looks for by name.
inline constexpr char kFused[] = "Fused";
inline constexpr char kReshape[] = "Reshape";
inline constexpr char kSwapOut[] = "SwapOut";  // x -> the same bytes in the host's memory
inline constexpr char kSwapIn[] = "SwapIn";    // and back
inline constexpr char kCountCorrect[] = "CountCorrect";
inline constexpr char kLossDenominator[] = "LossDenominator";

// What happens at a node of the schedule.
enum class Runs : uint8_t {
  kKernel,  // a kernel reads the operands and writes the results
  // also a kernel: it runs Node::program, which also stores into the mutated operands
  kProgram,
  kAlias,    // nothing: the result is the operand's bytes under another shape
  kSwapOut,  // a kernel copies bytes to the host's memory
  kSwapIn,   // and back
};

// The meaning of operand 1: nothing special, or positions along an axis of operand 0, which must be
// below that axis's extent.
enum class PositionsOn : uint8_t { kNothing, kLastAxis, kAttributeAxis };

// Which operands and results may be bfloat16 in place of float32, a letter for each. The last letter
// also holds for all that follow.
//   -  never
//   b  may be
//   s  is bfloat16 if all others of the node are that are marked so
//   r  a result that may be if some operand is
// Kernels round a float32 factor of a product to bfloat16 if the other factor is bfloat16.
struct BFloat16s {
  std::string_view operands = "-", results = "-";
};

// A bound of a node's scratch bytes.
using WorkspaceRule = CappedDim (*)(const Graph&, const Node&, const Target&);

// What kernels do with a result without samples that the tiles before left, in a loop over samples. With the first
// sample they start anew.
enum class GoesOnFrom : uint8_t {
  kNothing,  // each tile makes a result of its own
  kSum,      // they add to the sum in place
  kMoments,  // they take the tile's samples into the moments of those so far
};

struct RuntimeOp {
  static constexpr int kNone = -1;
  struct Count {
    int least = 1, most = 1;  // most = kAny: no limit
    static constexpr int kAny = -1;
    bool Allows(int64_t count) const { return count >= least && (most == kAny || count <= most); }
  };

  std::string_view name;
  // the first `least` are always present, others may be kNoValue
  Count operands = {};
  Count results = {};
  Runs runs = Runs::kKernel;
  // The reason why the node cannot run a tile of samples at a time; nullopt if it can
  // (tile_rules.h). Null: no node of the operator can.
  std::optional<std::string> (*why_not_tileable)(const Graph&, const Node&) = nullptr;
  // The reason why a node that can do so cannot run for some of a sample's tokens; nullopt if it can
  // (token_loops.h). Null: no node of the operator can.
  std::optional<std::string> (*why_not_of_tokens)(const Graph&, const Node&) = nullptr;
  // Scratch bytes that each target's fast kernels need (workspace_rules.h). Null: none.
  ByTarget<WorkspaceRule> workspace = {};
  PositionsOn positions = PositionsOn::kNothing;
  // Pairs of digits, a result and an operand: the kernel reads each element of the operand for the last time
  // before it writes that element of the result, so both may use one storage. Loops: as their program says.
  std::string_view in_place = {};
  GoesOnFrom goes_on = GoesOnFrom::kNothing;
  // The first operand that kernels write; they write all that follow. kNone: none. Loops: Node::mutates.
  int writes_from = kNone;
  // The operand that may be the code of a frozen weight (Value::coded), which kernels decode as they read it. kNone:
  // none; loops decode as their programs say.
  int decodes = kNone;
  // each element of the result is an element of some operand, unchanged
  bool moves_numbers = false;
  BFloat16s bfloat16 = {};
};

// "2", "1 to 3" or "1 or more".
std::string ToString(const RuntimeOp::Count& count);

// All rows, and the row of one name. It is null if no plan may contain such an operator.
std::span<const RuntimeOp> RuntimeOps();
const RuntimeOp* FindRuntimeOp(std::string_view name);

// kKernel for an operator that is not in the table.
Runs RunsOf(const Node& node);
inline bool IsAlias(const Node& node) { return RunsOf(node) == Runs::kAlias; }
inline bool RunsProgram(const Node& node) { return RunsOf(node) == Runs::kProgram; }

// What is wrong with the number of the node's operands and results. Nullopt if nothing is, or if
// the operator is not in the table.
std::optional<std::string> WrongCounts(const Node& node);

// What the node's kernel computes with as operand i: of a code that it decodes, the numbers; else the value's own type.
const TensorType& OperandType(const Graph& graph, const Node& node, size_t i);
// Whether operand i is a code that the kernel decodes.
bool DecodesOperand(const Graph& graph, const Node& node, size_t i);

// The letter of BFloat16s for operand or result i.
char BFloat16Letter(std::string_view letters, size_t i);
// What is wrong with the places where a node has bfloat16. It has as many operands and results as
// its operator takes, and all are values of the graph or left out.
std::optional<std::string> WrongBFloat16(const Graph& graph, const Node& node);

}  // namespace act
