// Writes the instructions of elementwise operators into a fused
// loop's program (runtime/plan/program.h).
#pragma once

#include <utility>
#include <vector>

#include "runtime/plan/program.h"

namespace act {

// A value in a loop's program, made by an operand, a constant or an instruction. It is a type and
// not a number, so that a constant is not taken for a register.
struct Reg {
  int32_t id = -1;  // -1: none
  bool operator==(const Reg&) const = default;
};
using Regs = std::vector<Reg>;

// Numbers registers in the order of creation, which is not yet the program's order: inputs,
// constants and instructions may interleave. Finish() renumbers them.
class ExprBuilder {
 public:
  // The register of a new operand. The order of these calls is the order of the program's inputs.
  Reg Input(const ProgramInput& input);
  Reg Const(float value) { return AddConstant({value, Dim(0)}); }
  // value / extent(N).
  Reg Over(float value, const Dim& extent) { return AddConstant({value, extent}); }

  Reg Op(Opcode op, Reg a, Reg b = {}, Reg c = {}, float parameter = 0, int32_t stream = 0);
  Reg Add(Reg a, Reg b) { return Op(Opcode::kAdd, a, b); }
  Reg Sub(Reg a, Reg b) { return Op(Opcode::kSub, a, b); }
  Reg Mul(Reg a, Reg b) { return Op(Opcode::kMul, a, b); }
  Reg Div(Reg a, Reg b) { return Op(Opcode::kDiv, a, b); }
  Reg Fma(Reg a, Reg b, Reg c) { return Op(Opcode::kFma, a, b, c); }
  Reg Neg(Reg a) { return Op(Opcode::kNeg, a); }
  Reg Max(Reg a, Reg b) { return Op(Opcode::kMax, a, b); }
  Reg Min(Reg a, Reg b) { return Op(Opcode::kMin, a, b); }
  Reg Greater(Reg a, Reg b) { return Op(Opcode::kGreater, a, b); }
  Reg Select(Reg condition, Reg a, Reg b) { return Op(Opcode::kSelect, condition, a, b); }
  Reg Unary(Opcode op, Reg a) { return Op(op, a); }

  void Output(OutputKind kind, Reg reg, Codec codec = {}, int32_t stream = 0) {
    outputs_.push_back({kind, reg.id, std::move(codec), stream});
  }

  // The program over `space`. Equal constants and equal instructions are shared, and dead
  // instructions are dropped.
  Program Finish(Dims space);

 private:
  Reg Last() const { return {static_cast<int32_t>(registers_.size()) - 1}; }

  struct Register {
    enum class Kind { kInput, kConstant, kInstr } kind;
    int index;
  };
  Reg AddConstant(const ProgramConstant& constant);
  bool IsConstant(Reg reg, float value) const;

  std::vector<Register> registers_;
  std::vector<ProgramInput> inputs_;
  std::vector<ProgramConstant> constants_;
  std::vector<Instr> instrs_;
  std::vector<ProgramOutput> outputs_;
};

}  // namespace act
