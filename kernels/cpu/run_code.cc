#include "kernels/cpu/run_code.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

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

int32_t BlockElements(const std::vector<RunInstr>& instrs) {
  int32_t elements = 0;
  for (const RunInstr& i : instrs)
    if (i.op == RunOp::kDecode)
      elements = elements == 0 ? i.planes.GroupElements() : std::min(elements, i.planes.GroupElements());
  return elements;
}

RunIsa BestRunIsa() {
#if defined(__x86_64__)
  if (HasIsa(dnnl::cpu_isa::avx512_core_vnni) && __builtin_cpu_supports("avx512vbmi") &&
      __builtin_cpu_supports("gfni"))
    return RunIsa::kAvx512Bytes;
  if (HasIsa(dnnl::cpu_isa::avx512_core)) return RunIsa::kAvx512;
  if (HasIsa(dnnl::cpu_isa::avx2) && __builtin_cpu_supports("fma")) return RunIsa::kAvx2;
#endif
  return RunIsa::kNone;
}

namespace {

std::shared_ptr<const RunCode> Generated([[maybe_unused]] RunIsa isa,
                                         [[maybe_unused]] const std::vector<RunInstr>& instrs,
                                         [[maybe_unused]] const std::vector<StreamType>& streams) {
#if defined(__x86_64__)
  try {
    const auto code = isa == RunIsa::kAvx2 ? Avx2Run(instrs, streams) : Avx512Run(isa, instrs, streams);
    if (code->Generate()) return code;
  } catch (const std::exception&) {  // of Xbyak: no memory that may be executed
  }
#endif
  return nullptr;
}

}  // namespace

// A network's layers are alike: ResNet-50's 311 runs at L0 are 18 different ones. Each takes pages of its own, of
// which a process has not many.
std::shared_ptr<const RunCode> RunCode::Make(RunIsa isa, const std::vector<RunInstr>& instrs,
                                             const std::vector<StreamType>& streams) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::vector<int32_t>, std::weak_ptr<const RunCode>>;
  std::vector<int32_t> key{static_cast<int32_t>(isa), static_cast<int32_t>(streams.size())};
  for (const StreamType type : streams) key.push_back(static_cast<int32_t>(type));
  for (const RunInstr& i : instrs)
    key.insert(key.end(), {static_cast<int32_t>(i.op), static_cast<int32_t>(i.instr.op),
                           static_cast<int32_t>(i.instr.relu), static_cast<int32_t>(i.planes.value),
                           static_cast<int32_t>(i.planes.dither), i.planes.bits, i.planes.plane_bytes,
                           i.planes.from, i.planes.to, i.to, i.a, i.b, i.c, i.stream});
  const std::scoped_lock lock(mutex);
  std::weak_ptr<const RunCode>& entry = known[std::move(key)];
  std::shared_ptr<const RunCode> code = entry.lock();
  if (!code) entry = code = Generated(isa, instrs, streams);
  return code;
}

}  // namespace act
