#include "kernels/cpu/fused_buffers.h"

#include <algorithm>

namespace act {
namespace {

// The gap after a tile buffer. If buffers were a whole page apart, a store would seem to alias the
// next loads: the processor compares 12 bits of their addresses.
constexpr int64_t kBufferGap = 80;

LoopRegister& At(FusedLoop& loop, int32_t reg) { return loop.registers[static_cast<size_t>(reg)]; }

}  // namespace

int64_t AllocateScratch(FusedLoop& loop, int64_t floats) {
  const int64_t start = loop.scratch_floats;
  loop.scratch_floats += RoundUp(floats, 16);
  return start;
}

void DropUnusedReads(FusedLoop& loop) {
  std::vector<bool> read(loop.registers.size(), false);
  for (const std::vector<Step>* steps : {&loop.once, &loop.steps})
    for (const Step& s : *steps)
      for (const int32_t operand : s.Read())
        if (operand >= 0) read[static_cast<size_t>(operand)] = true;
  std::erase_if(loop.steps, [&read](const Step& s) {
    return (s.kind == StepKind::kRead || s.kind == StepKind::kReadRow || s.kind == StepKind::kDecode) &&
           !read[static_cast<size_t>(s.reg)];
  });
}

void ReadLate(FusedLoop& loop) {
  for (size_t i = loop.steps.size(); i-- > 0;) {
    if (loop.steps[i].kind != StepKind::kRead) continue;
    const auto read = loop.steps.begin() + static_cast<std::ptrdiff_t>(i);
    const auto stays_before = [reg = read->reg](const Step& s) {
      const auto operands = s.Read();
      return s.kind == StepKind::kStore || std::find(operands.begin(), operands.end(), reg) != operands.end();
    };
    std::rotate(read, read + 1, std::find_if(read + 1, loop.steps.end(), stays_before));
  }
}

void FindDirectStores(const KernelSite& site, FusedLoop& loop) {
  for (const Step& store : loop.steps) {
    const bool f32 = store.tensor >= 0 && store.kind == StepKind::kStore &&
                     site.outputs[static_cast<size_t>(store.tensor)].dtype == DType::kFloat32;
    if (!f32 || At(loop, store.reg).place != Place::kBuffer) continue;
    const auto taken = [&store](const DirectStore& d) { return d.reg == store.reg; };
    if (std::any_of(loop.direct.begin(), loop.direct.end(), taken)) continue;
    DirectStore direct{store.tensor, store.reg, {}};
    bool made = false;
    for (const Step& s : loop.steps) {
      for (const int32_t operand : s.Read())
        if (made && operand >= 0 && At(loop, operand).place == Place::kDirect)
          direct.read_later.push_back(At(loop, operand).input);
      // kRead takes operands of other types or shapes. A result may not share their memory.
      made = made || s.Made() == store.reg;
    }
    loop.direct.push_back(direct);
  }
}

void AllocateBuffers(FusedLoop& loop) {
  std::vector<size_t> last(loop.registers.size(), 0);
  for (size_t i = 0; i < loop.steps.size(); ++i)
    for (const int32_t r : {loop.steps[i].reg, loop.steps[i].a, loop.steps[i].b, loop.steps[i].c})
      if (r >= 0) last[static_cast<size_t>(r)] = i;
  std::vector<int64_t> free;
  for (size_t i = 0; i < loop.steps.size(); ++i) {
    const Step& s = loop.steps[i];
    // Frees operands first: the result may take the place of one.
    std::vector<int32_t> dying;
    for (const int32_t r : s.Read())
      if (r >= 0 && At(loop, r).place == Place::kBuffer && last[static_cast<size_t>(r)] == i &&
          std::find(dying.begin(), dying.end(), r) == dying.end())
        dying.push_back(r);
    for (const int32_t r : dying) free.push_back(At(loop, r).scratch);
    if (s.Made() < 0 || At(loop, s.reg).place != Place::kBuffer) continue;
    if (free.empty()) free.push_back(AllocateScratch(loop, loop.tile + kBufferGap));
    At(loop, s.reg).scratch = free.back();
    free.pop_back();
  }
}

}  // namespace act
