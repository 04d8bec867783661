#include "kernels/cpu/run_code.h"

#include <exception>

#include "kernels/cpu/instructions.h"
#if defined(__x86_64__)
#include "kernels/cpu/run_generator.h"
#endif

namespace act {

bool HasRunCode(TileInstr instr) {
  switch (instr.op) {
    case TileOp::kCopy:
    case TileOp::kMulSub:
    case TileOp::kNegMulAdd:
    case TileOp::kSided:
    case TileOp::kSidedAbs:
      return true;
    default:
      break;
  }
  switch (static_cast<Opcode>(instr.op)) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kDiv:
    case Opcode::kFma:
    case Opcode::kMax:
    case Opcode::kMin:
    case Opcode::kNeg:
    case Opcode::kAbs:
    case Opcode::kSqrt:
    case Opcode::kFloor:
    case Opcode::kGreater:
    case Opcode::kEqual:
    case Opcode::kSelect:
      return true;
    default:
      return false;
  }
}

RunIsa BestRunIsa() {
#if defined(__x86_64__)
  if (HasIsa(dnnl::cpu_isa::avx512_core)) return RunIsa::kAvx512;
  if (HasIsa(dnnl::cpu_isa::avx2) && __builtin_cpu_supports("fma")) return RunIsa::kAvx2;
#endif
  return RunIsa::kNone;
}

std::shared_ptr<const RunCode> RunCode::Make([[maybe_unused]] RunIsa isa,
                                             [[maybe_unused]] const std::vector<RunInstr>& instrs,
                                             [[maybe_unused]] const std::vector<StreamType>& streams) {
#if defined(__x86_64__)
  try {
    const auto code = isa == RunIsa::kAvx512 ? Avx512Run(instrs, streams) : Avx2Run(instrs, streams);
    if (code->Generate()) return code;
  } catch (const std::exception&) {  // of Xbyak: no memory that may be executed
  }
#endif
  return nullptr;
}

}  // namespace act
