#include "kernels/cuda/fused_registers.h"

#include <algorithm>

namespace act::cuda {
namespace {

size_t Index(int32_t reg) { return static_cast<size_t>(reg); }

}  // namespace

TextRegisters::TextRegisters(const CudaLoop& loop) : loop_(loop), program_(*loop.program) {
  FindLevels();
  FindArrays();
}

TextPlace TextRegisters::PlaceOf(int32_t reg) const {
  const RegisterForm& form = loop_.instructions.registers[Index(reg)];
  if (form.varies == Varies::kByElement) return TextPlace::kElement;
  if (form.varies == Varies::kByRow) return loop_.one_row ? TextPlace::kOfRow : TextPlace::kElement;
  return form.period == 1 ? TextPlace::kScalar : TextPlace::kColumn;
}

std::string TextRegisters::Name(int32_t reg) const {
  if (reg < program_.FirstConstant()) return "in" + std::to_string(reg);
  if (reg < program_.FirstInstr()) return "c" + std::to_string(reg - program_.FirstConstant());
  return "r" + std::to_string(reg - program_.FirstInstr());
}

std::string TextRegisters::Value(int32_t reg) const {
  return reg < 0 ? "" : Name(reg) + (IsArray(reg) ? "[j]" : "");
}

void TextRegisters::FindLevels() {
  level_.assign(loop_.instructions.registers.size(), 0);
  for (const LoopInstr& x : loop_.instructions.instrs) {
    int level = 0;
    for (const int32_t reg : {x.a, x.b, x.c})
      if (reg >= 0) level = std::max(level, level_[Index(reg)]);
    level_[Index(x.reg)] = level + x.IsReduction();
    levels_ = std::max(levels_, level_[Index(x.reg)]);
  }
}

void TextRegisters::FindArrays() {
  array_.assign(level_.size(), false);
  for (size_t i = 0; i < program_.inputs.size(); ++i)
    array_[i] = PlaceOf(static_cast<int32_t>(i)) == TextPlace::kElement;
  const auto read_at = [this](int32_t reg, int level) {
    if (reg >= 0 && PlaceOf(reg) == TextPlace::kElement && level_[Index(reg)] < level)
      array_[Index(reg)] = true;
  };
  for (const LoopInstr& x : loop_.instructions.instrs) {
    for (const int32_t reg : {x.a, x.b, x.c}) read_at(reg, level_[Index(x.reg)]);
    if (x.IsReduction() && PlaceOf(x.reg) == TextPlace::kElement) array_[Index(x.reg)] = true;
  }
  for (const ProgramOutput& output : program_.outputs)
    if (output.kind == OutputKind::kEncode) read_at(output.reg, levels_ + 1);
}

}  // namespace act::cuda
