#include "kernels/loops/loop_program.h"

#include <algorithm>

namespace act {
namespace {

RegisterForm FormOfOperand(const LoopOperand& operand) {
  switch (operand.kind) {
    case OperandKind::kColumn:
      return {Varies::kNever, operand.period};
    case OperandKind::kRow:
      return {Varies::kByRow, 0};
    case OperandKind::kElements:
    case OperandKind::kCode:
    case OperandKind::kBroadcast:
      return {Varies::kByElement, 0};
  }
  return {Varies::kByElement, 0};
}

}  // namespace

LoopProgram MakeLoopProgram(const Program& program, const std::vector<LoopOperand>& operands) {
  std::vector<RegisterForm> forms;
  forms.reserve(static_cast<size_t>(program.FirstInstr()) + program.instrs.size());
  for (const LoopOperand& operand : operands) forms.push_back(FormOfOperand(operand));
  forms.resize(static_cast<size_t>(program.FirstInstr()), {Varies::kNever, 1});  // constants
  for (const Instr& instr : program.instrs)
    forms.push_back(FormOf(instr.op, instr.a, instr.b, instr.c, forms));
  return OptimizeInstrs(program, std::move(forms));
}

std::vector<int32_t> CountReaders(const LoopProgram& optimized, const Program& program) {
  std::vector<int32_t> readers(optimized.registers.size());
  const auto count = [&readers](int32_t reg) {
    if (reg >= 0) ++readers[static_cast<size_t>(reg)];
  };
  for (const LoopInstr& i : optimized.instrs) {
    count(i.a);
    count(i.b);
    count(i.c);
  }
  for (const ProgramOutput& output : program.outputs) count(output.reg);
  return readers;
}

}  // namespace act
