#include "kernels/cuda/fused_expression.h"

#include <cstdio>
#include <initializer_list>

#include "kernels/math/bfloat16.h"

namespace act::cuda {

std::string Literal(float x) {
  char text[64];
  std::snprintf(text, sizeof text, "FloatOf(0x%08xu) /* %g */", BitsOf(x), static_cast<double>(x));
  return text;
}

std::string Expression(const LoopInstr& x, const std::string& a, const std::string& b, const std::string& c) {
  const auto call = [](const char* function, std::initializer_list<std::string> operands) {
    std::string s = std::string(function) + "(";
    for (const std::string& operand : operands) s += (s.back() == '(' ? "" : ", ") + operand;
    return s + ")";
  };
  switch (x.instr.op) {
    case TileOp::kCopy:
      return a;
    case TileOp::kMulSub:
      return call("MulAdd", {a, b, "-" + c});
    case TileOp::kNegMulAdd:
      return call("MulAdd", {"-" + a, b, c});
    case TileOp::kSided:
      return call("Sided", {a, b, c});
    case TileOp::kSidedAbs:
      return call("Sided", {call("fabsf", {a}), b, c});
    default:
      break;
  }
  switch (static_cast<Opcode>(x.instr.op)) {
    case Opcode::kAdd:
      return a + " + " + b;
    case Opcode::kSub:
      return a + " - " + b;
    case Opcode::kMul:
      return a + " * " + b;
    case Opcode::kDiv:
      return a + " / " + b;
    case Opcode::kFma:
      return call("MulAdd", {a, b, c});
    case Opcode::kMax:
      return call("Largest", {a, b});
    case Opcode::kMin:
      return call("Smallest", {a, b});
    case Opcode::kNeg:
      return "-" + a;
    case Opcode::kAbs:
      return call("fabsf", {a});
    case Opcode::kSqrt:
      return call("sqrtf", {a});
    case Opcode::kExp:
      return call("Exponential", {a});
    case Opcode::kLog:
      return call("logf", {a});
    case Opcode::kTanh:
      return call("HyperbolicTangent", {a});
    case Opcode::kSigmoid:
      return call("Sigmoid", {a});
    case Opcode::kErf:
      return call("ErrorFunction", {a});
    case Opcode::kPow:
      return call("powf", {a, b});
    case Opcode::kFloor:
      return call("floorf", {a});
    case Opcode::kGreater:
      return a + " > " + b + " ? 1.0f : 0.0f";
    case Opcode::kEqual:
      return a + " == " + b + " ? 1.0f : 0.0f";
    case Opcode::kSelect:
      return a + " == 0 ? " + c + " : " + b;
    case Opcode::kSin:
      return call("Sine", {a});
    case Opcode::kCos:
      return call("Cosine", {a});
    case Opcode::kDropout:
    case Opcode::kRowSum:
    case Opcode::kRowMax:
      break;
  }
  return "";
}

}  // namespace act::cuda
