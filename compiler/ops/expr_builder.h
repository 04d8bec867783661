// Writes the instructions of elementwise operators into a fused loop's program (runtime/plan/program.h).
#pragma once

#include <vector>

#include "runtime/plan/program.h"

namespace act {

// Registers are numbered here in the order of creation, not yet in the program's order: inputs, constants and
// instructions may interleave. Finish() renumbers.
class ExprBuilder {
 public:
  // Register of a new operand; its position in the program's inputs is the order of these calls.
  int Input(const ProgramInput& input);
  int Const(float value) { return AddConstant({value, Dim(0)}); }
  // value / extent(N).
  int Over(float value, const Dim& extent) { return AddConstant({value, extent}); }

  int Op(Opcode op, int a, int b = -1, int c = -1, float parameter = 0, int32_t stream = 0);
  int Add(int a, int b) { return Op(Opcode::kAdd, a, b); }
  int Sub(int a, int b) { return Op(Opcode::kSub, a, b); }
  int Mul(int a, int b) { return Op(Opcode::kMul, a, b); }
  int Div(int a, int b) { return Op(Opcode::kDiv, a, b); }
  int Fma(int a, int b, int c) { return Op(Opcode::kFma, a, b, c); }
  int Neg(int a) { return Op(Opcode::kNeg, a); }
  int Max(int a, int b) { return Op(Opcode::kMax, a, b); }
  int Min(int a, int b) { return Op(Opcode::kMin, a, b); }
  int Greater(int a, int b) { return Op(Opcode::kGreater, a, b); }
  int Select(int condition, int a, int b) { return Op(Opcode::kSelect, condition, a, b); }
  int Unary(Opcode op, int a) { return Op(op, a); }

  void Output(const ProgramOutput& output) { outputs_.push_back(output); }

  // The program over `space`: equal constants and equal instructions are shared, dead instructions dropped.
  Program Finish(Dims space);

 private:
  struct Register {
    enum class Kind { kInput, kConstant, kInstr } kind;
    int index;
  };
  int AddConstant(const ProgramConstant& constant);
  bool IsConstant(int reg, float value) const;

  std::vector<Register> registers_;
  std::vector<ProgramInput> inputs_;
  std::vector<ProgramConstant> constants_;
  std::vector<Instr> instrs_;
  std::vector<ProgramOutput> outputs_;
};

}  // namespace act
