#include "kernels/cpu/fused_peephole.h"

#include <algorithm>

namespace act {
namespace {

class Peephole {
 public:
  Peephole(const Program& program, const std::vector<Varies>& varies)
      : program_(program), varies_(varies), maker_(static_cast<size_t>(program.Registers()), -1) {
    for (size_t i = 0; i < program.instrs.size(); ++i) {
      const Instr& p = program.instrs[i];
      const int32_t reg = program.FirstInstr() + static_cast<int32_t>(i);
      instrs_.push_back({{ToTileOp(p.op), false}, reg, p.a, p.b, p.c, p.parameter, p.stream});
      maker_[static_cast<size_t>(reg)] = static_cast<int32_t>(i);
    }
  }

  std::vector<LoopInstr> Run() {
    for (LoopInstr& instr : instrs_) {
      CountUses();
      FuseMultiply(instr);
      FuseRelu(instr);
      FuseDot(instr);
    }
    CountUses();
    std::erase_if(instrs_, [this](const LoopInstr& i) { return !live_[static_cast<size_t>(i.reg)]; });
    return instrs_;
  }

 private:
  // Uses by live instructions and outputs; an instruction is live where one of those reads it.
  void CountUses() {
    uses_.assign(static_cast<size_t>(program_.Registers()), 0);
    live_.assign(static_cast<size_t>(program_.Registers()), false);
    const auto use = [this](int32_t reg) {
      if (reg < 0) return;
      ++uses_[static_cast<size_t>(reg)];
      live_[static_cast<size_t>(reg)] = true;
    };
    for (const ProgramOutput& output : program_.outputs) use(output.reg);
    for (size_t i = instrs_.size(); i-- > 0;) {
      if (!live_[static_cast<size_t>(instrs_[i].reg)]) continue;
      use(instrs_[i].a);
      use(instrs_[i].b);
      use(instrs_[i].c);
    }
  }

  // The instruction that makes `reg` as often as this, if it has one reader only.
  LoopInstr* OnlyReadHere(int32_t reg, Varies how) {
    if (reg < 0 || maker_[static_cast<size_t>(reg)] < 0 || uses_[static_cast<size_t>(reg)] != 1)
      return nullptr;
    if (how == Varies::kNever || varies_[static_cast<size_t>(reg)] != how) return nullptr;
    return &instrs_[static_cast<size_t>(maker_[static_cast<size_t>(reg)])];
  }
  Varies VariesLike(const LoopInstr& x) const { return varies_[static_cast<size_t>(x.reg)]; }

  LoopInstr* Product(int32_t reg, Varies how) {
    LoopInstr* made = OnlyReadHere(reg, how);
    return made && made->instr.op == ToTileOp(Opcode::kMul) && !made->instr.relu ? made : nullptr;
  }

  void FuseMultiply(LoopInstr& x) {
    const bool add = x.instr.op == ToTileOp(Opcode::kAdd), sub = x.instr.op == ToTileOp(Opcode::kSub);
    if (!add && !sub) return;
    const auto fuse = [&x](TileOp op, const LoopInstr& product, int32_t other) {
      x.instr.op = op;
      x.a = product.a;
      x.b = product.b;
      x.c = other;
    };
    if (const LoopInstr* product = Product(x.a, VariesLike(x)))
      fuse(add ? ToTileOp(Opcode::kFma) : TileOp::kMulSub, *product, x.b);
    else if (const LoopInstr* other = Product(x.b, VariesLike(x)))
      fuse(add ? ToTileOp(Opcode::kFma) : TileOp::kNegMulAdd, *other, x.a);
  }

  void FuseDot(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kRowSum)) return;
    const LoopInstr* product = Product(x.a, Varies::kByElement);
    if (!product) return;
    x.instr.op = TileOp::kRowDot;
    x.a = product->a;
    x.b = product->b;
  }

  bool IsZero(int32_t reg) const {
    const int32_t constant = reg - program_.FirstConstant();
    if (reg < program_.FirstConstant() || reg >= program_.FirstInstr()) return false;
    const ProgramConstant& value = program_.constants[static_cast<size_t>(constant)];
    return value.value == 0 && value.extent == Dim(0);
  }

  void FuseRelu(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kMax)) return;
    const LoopInstr* made = IsZero(x.b)   ? OnlyReadHere(x.a, VariesLike(x))
                            : IsZero(x.a) ? OnlyReadHere(x.b, VariesLike(x))
                                          : nullptr;
    if (!made) return;
    const TileOp op = made->instr.op;
    if (op != ToTileOp(Opcode::kAdd) && op != ToTileOp(Opcode::kSub) && op != ToTileOp(Opcode::kMul) &&
        op != ToTileOp(Opcode::kFma) && op != TileOp::kMulSub && op != TileOp::kNegMulAdd)
      return;
    x.instr = {op, true};
    x.a = made->a;
    x.b = made->b;
    x.c = made->c;
  }

  const Program& program_;
  const std::vector<Varies>& varies_;
  std::vector<int32_t> maker_;  // register -> instruction, -1: an input or a constant
  std::vector<LoopInstr> instrs_;
  std::vector<int32_t> uses_;
  std::vector<bool> live_;
};

}  // namespace

std::vector<LoopInstr> OptimizeInstrs(const Program& program, const std::vector<Varies>& varies) {
  return Peephole(program, varies).Run();
}

}  // namespace act
