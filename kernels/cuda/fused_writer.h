// Lines of a fused loop's text, and what its registers are called in them.
#pragma once

#include <string>

#include "kernels/cuda/fused_expression.h"
#include "kernels/cuda/fused_registers.h"

namespace act::cuda {

// What writes a part of the text derives from this.
class FusedWriter {
 public:
  explicit FusedWriter(const CudaLoop& loop) : loop_(loop), program_(*loop.program), registers_(loop) {}

 protected:
  void Line(int indent, const std::string& line) {
    text_.append(static_cast<size_t>(indent), ' ').append(line) += '\n';
  }

  static size_t Index(int32_t reg) { return static_cast<size_t>(reg); }
  using Place = TextPlace;
  Place PlaceOf(int32_t reg) const { return registers_.PlaceOf(reg); }
  bool IsArray(int32_t reg) const { return registers_.IsArray(reg); }
  int LevelOf(int32_t reg) const { return registers_.LevelOf(reg); }
  std::string Name(int32_t reg) const { return registers_.Name(reg); }
  std::string Value(int32_t reg) const { return registers_.Value(reg); }
  std::string ExpressionOf(const LoopInstr& x) const {
    std::string s;
    if (x.IsDropout())
      s = "(keeps_" + Name(x.reg) + " >> j & 1) != 0 ? " + Value(x.a) + " * " +
          Literal(1.0f / (1.0f - x.probability)) + " : 0.0f";
    else
      s = Expression(x, Value(x.a), Value(x.b), Value(x.c));
    return x.instr.relu ? "Relu(" + s + ")" : s;
  }
  // "in3"
  static std::string Number(const char* kind, int32_t n) { return kind + std::to_string(n); }

  const CudaLoop& loop_;
  const Program& program_;
  const TextRegisters registers_;
  std::string text_;
};

}  // namespace act::cuda
