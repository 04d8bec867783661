#include "compiler/ops/expr_builder.h"

#include <algorithm>

namespace act {

Reg ExprBuilder::Input(const ProgramInput& input) {
  registers_.push_back({Register::Kind::kInput, static_cast<int>(inputs_.size())});
  inputs_.push_back(input);
  return Last();
}

Reg ExprBuilder::AddConstant(const ProgramConstant& constant) {
  for (size_t r = 0; r < registers_.size(); ++r)
    if (registers_[r].kind == Register::Kind::kConstant &&
        constants_[static_cast<size_t>(registers_[r].index)] == constant)
      return {static_cast<int32_t>(r)};
  registers_.push_back({Register::Kind::kConstant, static_cast<int>(constants_.size())});
  constants_.push_back(constant);
  return Last();
}

bool ExprBuilder::IsConstant(Reg reg, float value) const {
  const Register& r = registers_[static_cast<size_t>(reg.id)];
  return r.kind == Register::Kind::kConstant &&
         constants_[static_cast<size_t>(r.index)] == ProgramConstant{value, Dim(0)};
}

Reg ExprBuilder::Op(Opcode op, Reg a, Reg b, Reg c, float parameter, int32_t stream) {
  // x + 0, x - 0 and 1 x become x. x may be -0 where the sum is +0.
  if ((op == Opcode::kAdd || op == Opcode::kSub) && IsConstant(b, 0)) return a;
  if (op == Opcode::kAdd && IsConstant(a, 0)) return b;
  if (op == Opcode::kMul && IsConstant(b, 1)) return a;
  if (op == Opcode::kMul && IsConstant(a, 1)) return b;
  if (op == Opcode::kFma && IsConstant(c, 0)) return Mul(a, b);
  if (op == Opcode::kFma && (IsConstant(a, 1) || IsConstant(b, 1))) return Add(IsConstant(a, 1) ? b : a, c);
  const Instr instr{op, a.id, b.id, c.id, parameter, stream};
  for (size_t r = 0; r < registers_.size(); ++r)
    if (registers_[r].kind == Register::Kind::kInstr &&
        instrs_[static_cast<size_t>(registers_[r].index)] == instr)
      return {static_cast<int32_t>(r)};
  registers_.push_back({Register::Kind::kInstr, static_cast<int>(instrs_.size())});
  instrs_.push_back(instr);
  return Last();
}

Program ExprBuilder::Finish(Dims space) {
  std::vector<bool> live(registers_.size(), false);
  for (const ProgramOutput& output : outputs_) live[static_cast<size_t>(output.reg)] = true;
  for (size_t r = registers_.size(); r-- > 0;) {
    if (!live[r] || registers_[r].kind != Register::Kind::kInstr) continue;
    const Instr& instr = instrs_[static_cast<size_t>(registers_[r].index)];
    for (int operand : {instr.a, instr.b, instr.c})
      if (operand >= 0) live[static_cast<size_t>(operand)] = true;
  }

  Program program;
  program.space = std::move(space);
  program.inputs = inputs_;
  program.outputs = outputs_;
  std::vector<int32_t> number(registers_.size(), -1);
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (registers_[r].kind == Register::Kind::kInput) number[r] = registers_[r].index;
    if (registers_[r].kind == Register::Kind::kConstant && live[r]) {
      number[r] = static_cast<int32_t>(inputs_.size() + program.constants.size());
      program.constants.push_back(constants_[static_cast<size_t>(registers_[r].index)]);
    }
  }
  const auto renumber = [&number](int32_t r) { return r < 0 ? r : number[static_cast<size_t>(r)]; };
  for (size_t r = 0; r < registers_.size(); ++r) {
    if (registers_[r].kind != Register::Kind::kInstr || !live[r]) continue;
    Instr instr = instrs_[static_cast<size_t>(registers_[r].index)];
    number[r] = program.FirstInstr() + static_cast<int32_t>(program.instrs.size());
    instr.a = renumber(instr.a);
    instr.b = renumber(instr.b);
    instr.c = renumber(instr.c);
    program.instrs.push_back(instr);
  }
  for (ProgramOutput& output : program.outputs) output.reg = renumber(output.reg);
  return program;
}

}  // namespace act
