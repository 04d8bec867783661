// Machine code for a run of steps (compiled_run.h), made with Xbyak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/plane_groups.h"

namespace act {

// What a run reads or writes in memory: consecutive elements, one that stands for all, or the PlaneGroups of a code.
// kTensor is a tensor in float32, and kBFloat16 one in bfloat16: what follows the tile is prefetched.
enum class StreamType : uint8_t { kFloat, kTensor, kBFloat16, kSplat, kCode };

enum class RunOp : uint8_t {
  kLoad,    // to = stream
  kDecode,  // to = the values of a kCode stream
  kApply,   // to = instr(a, b, c)
  kStore,   // stream = a
  kSum,     // stream += a, or a * b if there is b
};

// An instruction of a run. Values are numbered from 0; each is made once.
struct RunInstr {
  RunOp op = RunOp::kLoad;
  TileInstr instr = {};                     // kApply
  PlaneForm planes = {};                    // kDecode
  int32_t to = -1, a = -1, b = -1, c = -1;  // values
  int32_t stream = -1;
};

// The instructions that code may have.
enum class RunIsa : uint8_t { kNone, kAvx2 /* and FMA */, kAvx512, kAvx512Bytes /* and VBMI, GFNI */ };
// Whether kApply may have it.
bool HasRunCode(TileInstr instr);
// The elements after which codes of a run have another PlaneGroup: those of the smallest group. 0 without codes.
int32_t BlockElements(const std::vector<RunInstr>& instrs);
// The best of this processor, within the limit (instructions.h).
RunIsa BestRunIsa();

class RunCode {
 public:
  // For an instruction set that the processor has. Equal runs share their code, as long as one of them lives. Nullptr if
  // values do not fit the registers, or the system gives no memory for code.
  static std::shared_ptr<const RunCode> Make(RunIsa isa, const std::vector<RunInstr>& instrs,
                                             const std::vector<StreamType>& streams);
  virtual ~RunCode() = default;
  // Elements 0 .. count - 1 of streams that begin at these addresses. An element of a stream may be written only by an
  // instruction that comes after all that read it.
#if defined(__clang__)
  __attribute__((
      no_sanitize("function")))  // it would look for the type before the code, where nothing need be
#endif
  void
  operator()(const void* const* streams, size_t count) const {
    run_(streams, count);
  }

 protected:
  void (*run_)(const void* const* streams, size_t count) = nullptr;
};

}  // namespace act
