#include "runtime/plan/program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "runtime/codec/code_samples.h"

namespace act {
namespace {

// Random numbers are drawn in blocks of this many elements (kernels/math/random.h: 64 and 256).
constexpr int64_t kRandomBlock = 256;

// More registers than any fused loop needs. Limits what a hostile plan can ask for.
constexpr int64_t kMaxRegisters = 4096;

// "in" and 3 -> "in3".
std::string Numbered(const char* what, int64_t number) {
  std::string s = what;
  s += std::to_string(number);
  return s;
}

std::string FormatFloat(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  // Finds the shortest form that reads back as the same float.
  for (int digits = 1; digits < 9; ++digits) {
    char shorter[32];
    std::snprintf(shorter, sizeof(shorter), "%.*g", digits, static_cast<double>(value));
    if (std::strtof(shorter, nullptr) == value) return shorter;
  }
  return text;
}

std::string RegisterName(const Program& program, int32_t reg) {
  if (reg < 0 || reg >= program.Registers()) return Numbered("?", reg);
  if (reg < program.FirstConstant()) return Numbered("in", reg);
  if (reg >= program.FirstInstr()) return Numbered("r", reg - program.FirstInstr());
  const ProgramConstant& constant = program.constants[static_cast<size_t>(reg - program.FirstConstant())];
  const std::string value = FormatFloat(constant.value);
  return constant.extent == Dim(0) ? value : value + "/(" + ToString(constant.extent) + ")";
}

std::string CodecName(const Codec& codec, int32_t stream) {
  const std::string random = codec.HasLevels() || codec.plugin ? Numbered(", stream ", stream) : "";
  std::string s = "<";
  return s.append(ToString(codec)).append(random).append(">");
}

bool IsRowOpcode(Opcode op) { return op == Opcode::kRowSum || op == Opcode::kRowMax; }

std::optional<std::string> CheckInstr(const Instr& instr, int32_t self, int32_t row_axes) {
  if (instr.op > Opcode::kRowMax) return "unknown opcode " + std::to_string(static_cast<int>(instr.op));
  const int32_t operands[] = {instr.a, instr.b, instr.c};
  const int arity = Arity(instr.op);
  for (int i = 0; i < 3; ++i) {
    if (i < arity && (operands[i] < 0 || operands[i] >= self))
      return "operand register " + std::to_string(operands[i]) + " is not made before it is read";
    if (i >= arity && operands[i] != -1) return std::string(ToString(instr.op)) + " has too many operands";
  }
  if (IsRowOpcode(instr.op) && row_axes == 0) return std::string(ToString(instr.op)) + " without rows";
  if (instr.op == Opcode::kDropout && !(instr.parameter >= 0 && instr.parameter < 1))
    return "dropout probability " + FormatFloat(instr.parameter) + " is not in [0, 1)";
  return std::nullopt;
}

std::optional<std::string> CheckCode(const Codec& codec, const Dims& space) {
  if (auto wrong = CheckCodec(codec)) return wrong;
  if (!CodeType(codec, space))
    return "elements per sample of " + ToString(space) + " vary with the batch size";
  return std::nullopt;
}

std::optional<std::string> CheckOutput(const ProgramOutput& output, const Program& program) {
  if (output.kind > OutputKind::kRowStore)
    return "unknown kind " + std::to_string(static_cast<int>(output.kind));
  if (output.reg < 0 || output.reg >= program.Registers())
    return "register " + std::to_string(output.reg) + " does not exist";
  if (output.kind == OutputKind::kEncode) return CheckCode(output.codec, program.space);
  if (output.codec.kind != CodecKind::kNone) return "only an encoded output has a codec";
  if (output.kind == OutputKind::kRowStore && program.row_axes == 0) return "a number a row, without rows";
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> RowElements(const Dims& space, int32_t row_axes) {
  Dim row(1);
  for (size_t i = space.size() - static_cast<size_t>(row_axes); i < space.size(); ++i) row = row * space[i];
  if (!row.IsFixed() || row.fixed < 1 || row.fixed > kMaxRowTile) return std::nullopt;
  return row.fixed;
}

std::optional<int64_t> TileElements(const Program& program) {
  if (program.row_axes == 0) return kTileElements;
  const std::optional<int64_t> row = RowElements(program.space, program.row_axes);
  if (!row) return std::nullopt;
  int64_t align = 1;  // tiles begin at multiples of this within a sample
  const auto code = [&align](const Codec& codec) {
    if (codec.kind != CodecKind::kNone)
      align = std::lcm(align, std::lcm<int64_t>(kRandomBlock, codec.group_size));
  };
  for (const ProgramInput& input : program.inputs) code(input.codec);
  for (const ProgramOutput& output : program.outputs) code(output.codec);
  for (const Instr& instr : program.instrs)
    if (instr.op == Opcode::kDropout) align = std::lcm(align, kRandomBlock);
  const int64_t unit = std::lcm(*row, align);
  if (unit <= kMaxRowTile) return unit * std::max<int64_t>(1, kTileElements / unit);
  // If a tile is a whole sample, each tile begins at a place that every code allows.
  const Dim sample = CodeSamplesOf(program.space).elements;
  if (sample.IsFixed() && sample.fixed >= 1 && sample.fixed <= kMaxRowTile) return sample.fixed;
  return std::nullopt;
}

int Arity(Opcode op) {
  switch (op) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kDiv:
    case Opcode::kMax:
    case Opcode::kMin:
    case Opcode::kPow:
    case Opcode::kGreater:
    case Opcode::kEqual:
      return 2;
    case Opcode::kFma:
    case Opcode::kSelect:
      return 3;
    case Opcode::kNeg:
    case Opcode::kAbs:
    case Opcode::kSqrt:
    case Opcode::kExp:
    case Opcode::kLog:
    case Opcode::kTanh:
    case Opcode::kSigmoid:
    case Opcode::kErf:
    case Opcode::kFloor:
    case Opcode::kDropout:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kRowSum:
    case Opcode::kRowMax:
      return 1;
  }
  return 1;
}

const char* ToString(Opcode op) {
  switch (op) {
    case Opcode::kAdd:
      return "add";
    case Opcode::kSub:
      return "sub";
    case Opcode::kMul:
      return "mul";
    case Opcode::kDiv:
      return "div";
    case Opcode::kFma:
      return "fma";
    case Opcode::kMax:
      return "max";
    case Opcode::kMin:
      return "min";
    case Opcode::kNeg:
      return "neg";
    case Opcode::kAbs:
      return "abs";
    case Opcode::kSqrt:
      return "sqrt";
    case Opcode::kExp:
      return "exp";
    case Opcode::kLog:
      return "log";
    case Opcode::kTanh:
      return "tanh";
    case Opcode::kSigmoid:
      return "sigmoid";
    case Opcode::kErf:
      return "erf";
    case Opcode::kPow:
      return "pow";
    case Opcode::kFloor:
      return "floor";
    case Opcode::kGreater:
      return "greater";
    case Opcode::kEqual:
      return "equal";
    case Opcode::kSelect:
      return "select";
    case Opcode::kDropout:
      return "dropout";
    case Opcode::kSin:
      return "sin";
    case Opcode::kCos:
      return "cos";
    case Opcode::kRowSum:
      return "row_sum";
    case Opcode::kRowMax:
      return "row_max";
  }
  return "?";
}

std::optional<std::string> CheckProgram(const Program& program) {
  const size_t parts[] = {program.inputs.size(), program.constants.size(), program.instrs.size(),
                          program.outputs.size()};
  for (size_t part : parts)
    if (part > kMaxRegisters)
      return "the program has more than " + std::to_string(kMaxRegisters) + " registers";
  for (const Dim& d : program.space)
    if (d.TooLarge()) return "the iteration space " + ToString(program.space) + " is too large";
  if (program.row_axes < 0 || static_cast<size_t>(program.row_axes) > program.space.size())
    return "rows of " + std::to_string(program.row_axes) + " axes of " + ToString(program.space);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Codec& codec = program.inputs[i].codec;
    if (program.inputs[i].mask && !codec.HoldsMask())
      return Numbered("in", static_cast<int64_t>(i)) + ": its code holds no mask";
    if (codec.kind == CodecKind::kNone) continue;
    if (auto wrong = CheckCode(codec, program.space))
      return Numbered("in", static_cast<int64_t>(i)) + ": " + *wrong;
  }
  for (size_t i = 0; i < program.instrs.size(); ++i)
    if (auto wrong =
            CheckInstr(program.instrs[i], program.FirstInstr() + static_cast<int32_t>(i), program.row_axes))
      return Numbered("r", static_cast<int64_t>(i)) + ": " + *wrong;
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (auto wrong = CheckOutput(program.outputs[i], program))
      return Numbered("out", static_cast<int64_t>(i)) + ": " + *wrong;
  if (!TileElements(program)) return "rows of " + ToString(program.space) + " that no tile holds";
  return std::nullopt;
}

std::string ToString(const Program& program) {
  std::string s;
  if (program.row_axes > 0) s = "rows = last " + std::to_string(program.row_axes) + " axes\n";
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    if (input.codec.kind == CodecKind::kNone) continue;
    s += Numbered("in", static_cast<int64_t>(i)) + " = " + (input.mask ? "mask" : "decode") +
         CodecName(input.codec, input.stream) + "\n";
  }
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const Instr& instr = program.instrs[i];
    s += Numbered("r", static_cast<int64_t>(i)) + " = " + ToString(instr.op) + "(" +
         RegisterName(program, instr.a);
    if (Arity(instr.op) > 1) s += ", " + RegisterName(program, instr.b);
    if (Arity(instr.op) > 2) s += ", " + RegisterName(program, instr.c);
    if (instr.op == Opcode::kDropout)
      s += ", p " + FormatFloat(instr.parameter) + ", stream " + std::to_string(instr.stream);
    s += ")\n";
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const ProgramOutput& output = program.outputs[i];
    s += Numbered("out", static_cast<int64_t>(i)) + " = ";
    if (output.kind == OutputKind::kStore) s += "store";
    if (output.kind == OutputKind::kSum) s += "sum";
    if (output.kind == OutputKind::kRowStore) s += "row_store";
    if (output.kind == OutputKind::kEncode) s += "encode" + CodecName(output.codec, output.stream);
    s += "(" + RegisterName(program, output.reg) + ")\n";
  }
  return s;
}

Dim FusedWorkspaceBound(const Program& program, const std::vector<TensorType>& outputs,
                        const Target& target) {
  Dim bytes(0);
  for (size_t i = 0; i < program.outputs.size() && i < outputs.size(); ++i) {
    if (program.outputs[i].kind != OutputKind::kSum) continue;
    constexpr int64_t kDouble = 8;
    bytes = bytes + target.LoopPartialSums(outputs[i].Elements()) * Dim(kDouble) +
            Dim(AlignmentOf(target.kind()));
  }
  return bytes;
}

}  // namespace act
