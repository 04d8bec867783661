#include "kernels/cpu/fused_decode.h"

#include <algorithm>
#include <utility>

namespace act {
namespace {

class Merger {
 public:
  Merger(const Node& node, const std::vector<int32_t>& readers, FusedLoop& loop)
      : node_(node), readers_(readers), loop_(loop) {}

  bool Merge(const Step& x) {
    if (x.kind != StepKind::kApply || x.instr.relu) return false;
    if (x.instr.op == ToTileOp(Opcode::kAbs)) return Magnitude(x);
    const bool add = x.instr.op == ToTileOp(Opcode::kAdd), mul = x.instr.op == ToTileOp(Opcode::kMul),
               fma = x.instr.op == ToTileOp(Opcode::kFma);
    if (!add && !mul && !fma) return false;
    const std::pair<int32_t, int32_t> orders[] = {{x.a, x.b}, {x.b, x.a}};
    for (const auto& [code, other] : orders)
      if (mul && KeepPositive(x, code, other)) return true;
    for (const auto& [code, other] : orders)
      if (add ? Plus(x, code, other) : Times(x, code, other)) return true;
    return false;
  }

 private:
  // The step that decodes into `reg`, if only one instruction reads the register.
  Step* DecodeOf(int32_t reg) {
    const auto decodes = [reg](const Step& s) { return s.reg == reg && s.kind == StepKind::kDecode; };
    const auto at = std::find_if(loop_.steps.begin(), loop_.steps.end(), decodes);
    return at != loop_.steps.end() && readers_[static_cast<size_t>(reg)] == 1 ? &*at : nullptr;
  }

  // Scratch may be given anew between the two steps, so the decode moves to where the instruction
  // would have been.
  bool Replace(const Step* decode, Step merged, int32_t result) {
    merged.reg = result;
    loop_.steps.erase(loop_.steps.begin() + (decode - loop_.steps.data()));
    loop_.steps.push_back(merged);
    return true;
  }

  // Whether elements of a tile read the register in place. Not so for one number a row, if a tile
  // has several rows.
  bool IsTile(int32_t reg) const {
    return loop_.registers[static_cast<size_t>(reg)].place != Place::kRow || loop_.one_row;
  }

  bool Magnitude(const Step& x) {
    const Step* decode = DecodeOf(x.a);
    if (!decode || decode->mask || decode->IsScaled()) return false;
    Step merged = *decode;
    merged.magnitude = true;
    return Replace(decode, merged, x.reg);
  }

  bool Times(const Step& x, int32_t code, int32_t other) {
    const Step* decode = DecodeOf(code);
    if (!decode || decode->IsScaled() || !IsTile(other) || (x.c >= 0 && !IsTile(x.c)) || other == code ||
        x.c == code)
      return false;
    Step merged = *decode;
    merged.a = other;
    merged.b = x.c;
    return Replace(decode, merged, x.reg);
  }

  bool Plus(const Step& x, int32_t code, int32_t other) {
    const Step* decode = DecodeOf(code);
    if (!decode || decode->b >= 0 || decode->keep_positive || !IsTile(other)) return false;
    Step merged = *decode;
    merged.b = other;
    return Replace(decode, merged, x.reg);
  }

  // Merges a product with the mask of the code that was decoded.
  bool KeepPositive(const Step& x, int32_t number, int32_t mask) {
    const Step *decode = DecodeOf(number), *of_mask = DecodeOf(mask);
    if (!decode || !of_mask || decode->mask || decode->keep_positive) return false;
    if (!of_mask->mask || of_mask->IsScaled() || !IsSameCode(*decode, *of_mask)) return false;
    Step merged = *decode;
    merged.keep_positive = true;
    const int32_t needless = of_mask->reg;
    Replace(decode, merged, x.reg);
    std::erase_if(loop_.steps, [needless](const Step& s) { return s.reg == needless; });
    return true;
  }

  bool IsSameCode(const Step& a, const Step& b) const {
    const auto i = static_cast<size_t>(a.tensor), j = static_cast<size_t>(b.tensor);
    return loop_.inputs[i].codec.kind == CodecKind::kSign && loop_.inputs[i].codec == loop_.inputs[j].codec &&
           node_.inputs[i] == node_.inputs[j];
  }

  const Node& node_;
  const std::vector<int32_t>& readers_;
  FusedLoop& loop_;
};

}  // namespace

bool DecodeInto(const Step& step, const Node& node, const std::vector<int32_t>& readers, FusedLoop& loop) {
  return Merger(node, readers, loop).Merge(step);
}

}  // namespace act
