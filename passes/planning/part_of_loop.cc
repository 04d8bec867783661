#include "passes/planning/part_of_loop.h"

#include <array>
#include <utility>

namespace act {
namespace {

std::array<int32_t*, 3> OperandsOf(Instr& instr) { return {&instr.a, &instr.b, &instr.c}; }

// For each register of the program, whether an output needs it.
std::vector<bool> NeededRegisters(Program program) {
  std::vector<bool> needed(static_cast<size_t>(program.Registers()));
  for (const ProgramOutput& output : program.outputs) needed[static_cast<size_t>(output.reg)] = true;
  for (size_t i = program.instrs.size(); i-- > 0;) {
    if (!needed[static_cast<size_t>(program.FirstInstr()) + i]) continue;
    for (const int32_t* operand : OperandsOf(program.instrs[i]))
      if (*operand >= 0) needed[static_cast<size_t>(*operand)] = true;
  }
  return needed;
}

}  // namespace

Node PartOfLoop(const Node& loop, const std::vector<size_t>& results) {
  Node part = loop;
  part.outputs.clear();
  part.program.outputs.clear();
  for (const size_t r : results) {
    part.outputs.push_back(loop.outputs[r]);
    part.program.outputs.push_back(loop.program.outputs[r]);
  }
  const std::vector<bool> needed = NeededRegisters(part.program);
  std::vector<int32_t> number(needed.size(), -1);  // of each register in the part
  int32_t registers = 0;
  size_t old = 0;
  const auto keep_needed = [&](auto& list) {
    std::decay_t<decltype(list)> kept;
    for (auto& entry : list) {
      if (needed[old]) number[old] = registers++, kept.push_back(entry);
      ++old;
    }
    list = std::move(kept);
  };
  part.inputs.clear();
  for (size_t i = 0; i < loop.inputs.size(); ++i)
    if (needed[i]) part.inputs.push_back(loop.inputs[i]);
  keep_needed(part.program.inputs);
  keep_needed(part.program.constants);
  keep_needed(part.program.instrs);
  for (Instr& instr : part.program.instrs)
    for (int32_t* operand : OperandsOf(instr))
      if (*operand >= 0) *operand = number[static_cast<size_t>(*operand)];
  for (ProgramOutput& output : part.program.outputs) output.reg = number[static_cast<size_t>(output.reg)];
  return part;
}

}  // namespace act
