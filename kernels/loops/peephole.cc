#include "kernels/loops/peephole.h"

#include <algorithm>
#include <optional>

namespace act {
namespace {

class Peephole {
 public:
  Peephole(const Program& program, std::vector<RegisterForm> forms)
      : program_(program), forms_(std::move(forms)), maker_(forms_.size(), -1) {
    CountUses();
  }

  LoopProgram Run() {
    for (size_t i = 0; i < program_.instrs.size(); ++i) {
      const Instr& p = program_.instrs[i];
      const int32_t reg = program_.FirstInstr() + static_cast<int32_t>(i);
      if (uses_[Index(reg)] == 0) continue;
      LoopInstr x{{ToTileOp(p.op), false}, reg, p.a, p.b, p.c, p.parameter, p.stream};
      AddProductOnce(x);
      FoldScaled(x);
      AddBeforeScale(x);
      FuseMultiply(x);
      FuseRelu(x);
      FuseSided(x);
      FuseDot(x);
      Append(x);
    }
    std::erase_if(instrs_, [](const LoopInstr& i) { return i.reg < 0; });
    SinkResults();
    return {std::move(instrs_), std::move(forms_)};
  }

 private:
  static size_t Index(int32_t reg) { return static_cast<size_t>(reg); }

  // Counts reads by outputs, and by instructions on which outputs depend. A rewrite only moves
  // operands from one reader to another, so the counts of registers that vary stay true.
  void CountUses() {
    uses_.assign(forms_.size(), 0);
    const auto use = [this](int32_t reg) {
      if (reg >= 0) ++uses_[Index(reg)];
    };
    for (const ProgramOutput& output : program_.outputs) use(output.reg);
    for (size_t i = program_.instrs.size(); i-- > 0;) {
      if (uses_[Index(program_.FirstInstr()) + i] == 0) continue;
      use(program_.instrs[i].a);
      use(program_.instrs[i].b);
      use(program_.instrs[i].c);
    }
  }

  void Append(const LoopInstr& x) {
    maker_[Index(x.reg)] = static_cast<int32_t>(instrs_.size());
    instrs_.push_back(x);
  }

  // op(a, b, c) in a new register, which one instruction reads.
  int32_t Add(RegisterForm form, Opcode op, int32_t a, int32_t b, int32_t c = -1) {
    const auto reg = static_cast<int32_t>(forms_.size());
    forms_.push_back(form);
    uses_.push_back(1);
    maker_.push_back(-1);
    LoopInstr x{{ToTileOp(op), false}, reg, a, b, c};
    FoldScaled(x);
    Append(x);
    return reg;
  }

  // The same for operands that are computed once.
  int32_t AddOnce(Opcode op, int32_t a, int32_t b, int32_t c = -1) {
    return Add(FormOf(op, a, b, c, forms_), op, a, b, c);
  }

  bool IsOnce(int32_t reg) const { return reg >= 0 && forms_[Index(reg)].varies == Varies::kNever; }

  // The instruction that makes `reg`, if it has this number of readers.
  LoopInstr* MadeFor(int32_t reg, int32_t readers) {
    if (reg < 0 || maker_[Index(reg)] < 0 || uses_[Index(reg)] != readers) return nullptr;
    return &instrs_[Index(maker_[Index(reg)])];
  }
  // The instruction that makes `reg`, if it varies as `how` says and has one reader.
  LoopInstr* OnlyReadHere(int32_t reg, Varies how) {
    if (how == Varies::kNever || reg < 0 || forms_[Index(reg)].varies != how) return nullptr;
    return MadeFor(reg, 1);
  }
  Varies VariesLike(const LoopInstr& x) const { return forms_[Index(x.reg)].varies; }

  // Drops an instruction that a rewrite has made unnecessary.
  static void Drop(LoopInstr& made) { made.reg = -1; }

  // Moves an instruction whose result is stored to just before its first reader, or to the end.
  // Then its result can be made in place more often: the memory may be that of an operand, which
  // fewer later instructions read.
  void SinkResults() {
    for (size_t i = instrs_.size(); i-- > 0;) {
      const int32_t reg = instrs_[i].reg;
      const auto stores = [reg](const ProgramOutput& o) {
        return o.kind == OutputKind::kStore && o.reg == reg;
      };
      if (std::none_of(program_.outputs.begin(), program_.outputs.end(), stores)) continue;
      const auto reads = [reg](const LoopInstr& x) { return x.a == reg || x.b == reg || x.c == reg; };
      const auto at = instrs_.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(at, at + 1, std::find_if(at + 1, instrs_.end(), reads));
    }
  }

  // ---- Multiply-adds, dot products, max(x, 0)

  LoopInstr* Product(int32_t reg, Varies how) {
    LoopInstr* made = OnlyReadHere(reg, how);
    return made && made->instr.op == ToTileOp(Opcode::kMul) && !made->instr.relu ? made : nullptr;
  }

  void FuseMultiply(LoopInstr& x) {
    const bool add = x.instr.op == ToTileOp(Opcode::kAdd), sub = x.instr.op == ToTileOp(Opcode::kSub);
    if (!add && !sub) return;
    const auto fuse = [&x](TileOp op, LoopInstr& product, int32_t other) {
      x.instr.op = op;
      x.a = product.a;
      x.b = product.b;
      x.c = other;
      Drop(product);
    };
    if (LoopInstr* product = Product(x.a, VariesLike(x)))
      fuse(add ? ToTileOp(Opcode::kFma) : TileOp::kMulSub, *product, x.b);
    else if (LoopInstr* other = Product(x.b, VariesLike(x)))
      fuse(add ? ToTileOp(Opcode::kFma) : TileOp::kNegMulAdd, *other, x.a);
  }

  void FuseDot(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kRowSum)) return;
    LoopInstr* product = Product(x.a, Varies::kByElement);
    if (!product) return;
    x.instr.op = TileOp::kRowDot;
    x.a = product->a;
    x.b = product->b;
    Drop(*product);
  }

  // select(b > 0, v, -v), where v = max(a, c) or max(|a|, c), and c is computed once.
  void FuseSided(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kSelect) || IsOnce(x.reg)) return;
    LoopInstr* side = MadeBy(Opcode::kGreater, x.a, 1);
    LoopInstr* negative = MadeBy(Opcode::kNeg, x.c, 1);
    LoopInstr* largest = MadeBy(Opcode::kMax, x.b, 2);
    if (!side || !negative || !largest || !IsZero(side->b) || negative->a != x.b || !IsOnce(largest->b))
      return;
    LoopInstr* magnitude = MadeBy(Opcode::kAbs, largest->a, 1);
    x.instr.op = magnitude ? TileOp::kSidedAbs : TileOp::kSided;
    x.a = magnitude ? magnitude->a : largest->a;
    x.b = side->a;
    x.c = largest->b;
    for (LoopInstr* made : {side, negative, largest, magnitude})
      if (made) Drop(*made);
  }
  // The same, if its opcode is `op`.
  LoopInstr* MadeBy(Opcode op, int32_t reg, int32_t readers) {
    LoopInstr* made = MadeFor(reg, readers);
    return made && made->instr.op == ToTileOp(op) && !made->instr.relu ? made : nullptr;
  }

  bool IsZero(int32_t reg) const {
    const int32_t constant = reg - program_.FirstConstant();
    if (reg < program_.FirstConstant() || reg >= program_.FirstInstr()) return false;
    const ProgramConstant& value = program_.constants[Index(constant)];
    return value.value == 0 && value.extent == Dim(0);
  }

  void FuseRelu(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kMax)) return;
    LoopInstr* made = IsZero(x.b)   ? OnlyReadHere(x.a, VariesLike(x))
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
    Drop(*made);
  }

  // ---- Scales and shifts

  // of * times + plus, where times and plus are computed once, or -1.
  struct Scaled {
    int32_t of, times = -1, plus = -1;
  };
  std::optional<Scaled> ScaledOf(const LoopInstr& x) const {
    if (x.instr.relu) return std::nullopt;
    const bool add = x.instr.op == ToTileOp(Opcode::kAdd), mul = x.instr.op == ToTileOp(Opcode::kMul),
               fma = x.instr.op == ToTileOp(Opcode::kFma);
    if (!add && !mul && !fma) return std::nullopt;
    if (fma && !IsOnce(x.c)) return std::nullopt;
    for (const auto& [of, once] : {std::pair(x.a, x.b), std::pair(x.b, x.a)}) {
      if (IsOnce(of) || !IsOnce(once)) continue;
      if (add) return Scaled{of, -1, once};
      return Scaled{of, once, x.c};
    }
    return std::nullopt;
  }

  // Whether it is a code's number, or the magnitude of one.
  bool IsDecoded(int32_t reg) const {
    if (reg < program_.FirstConstant())
      return program_.inputs[Index(reg)].codec.HasLevels() && !program_.inputs[Index(reg)].mask;
    if (maker_[Index(reg)] < 0) return false;
    const LoopInstr& made = instrs_[Index(maker_[Index(reg)])];
    return made.instr.op == ToTileOp(Opcode::kAbs) && made.a < program_.FirstConstant() && IsDecoded(made.a);
  }

  // a b + v becomes v + p if the product p = a b is computed once.
  void AddProductOnce(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kFma) || !IsOnce(x.a) || !IsOnce(x.b) || !IsDecoded(x.c)) return;
    const int32_t product = AddOnce(Opcode::kMul, x.a, x.b);
    x = {{ToTileOp(Opcode::kAdd), false}, x.reg, x.c, product};
  }

  // The scaling of a decoded number that makes `reg`, if only x reads it.
  std::optional<Scaled> ScaledBefore(int32_t reg, const LoopInstr& x, LoopInstr*& made) {
    made = OnlyReadHere(reg, VariesLike(x));
    if (!made) return std::nullopt;
    const std::optional<Scaled> scaled = ScaledOf(*made);
    return scaled && IsDecoded(scaled->of) ? scaled : std::nullopt;
  }

  // (v t + p) t' + p' = v (t t') + (p t' + p')
  void FoldScaled(LoopInstr& x) {
    const std::optional<Scaled> outer = ScaledOf(x);
    LoopInstr* made = nullptr;
    const std::optional<Scaled> inner = outer ? ScaledBefore(outer->of, x, made) : std::nullopt;
    if (!inner) return;
    Drop(*made);
    const int32_t t = outer->times, p = outer->plus;
    const int32_t times =
        inner->times < 0 || t < 0 ? std::max(inner->times, t) : AddOnce(Opcode::kMul, inner->times, t);
    const int32_t shift = inner->plus;
    const int32_t plus = shift < 0        ? p
                         : t < 0 && p < 0 ? shift
                         : t < 0          ? AddOnce(Opcode::kAdd, shift, p)
                         : p < 0          ? AddOnce(Opcode::kMul, shift, t)
                                          : AddOnce(Opcode::kFma, shift, t, p);
    x.instr.op = ToTileOp(plus < 0 ? Opcode::kMul : times < 0 ? Opcode::kAdd : Opcode::kFma);
    x.a = inner->of;
    x.b = times < 0 ? plus : times;
    x.c = times < 0 ? -1 : plus;
  }

  // (v t + p) + y = v t + (y + p). The decode can add what varies, and y may have a shift that
  // takes p.
  void AddBeforeScale(LoopInstr& x) {
    if (x.instr.op != ToTileOp(Opcode::kAdd) || IsOnce(x.a) || IsOnce(x.b)) return;
    for (const auto& [of, y] : {std::pair(x.a, x.b), std::pair(x.b, x.a)}) {
      LoopInstr* made = nullptr;
      const std::optional<Scaled> scaled = ScaledBefore(of, x, made);
      if (!scaled || scaled->plus < 0) continue;
      Drop(*made);
      const int32_t rest = Add({VariesLike(x), 0}, Opcode::kAdd, y, scaled->plus);
      x.instr.op = ToTileOp(scaled->times < 0 ? Opcode::kAdd : Opcode::kFma);
      x.a = scaled->of;
      x.b = scaled->times < 0 ? rest : scaled->times;
      x.c = scaled->times < 0 ? -1 : rest;
      return;
    }
  }

  const Program& program_;
  std::vector<RegisterForm> forms_;
  // register -> place in instrs_; -1: an input, a constant, or not yet made
  std::vector<int32_t> maker_;
  std::vector<LoopInstr> instrs_;  // reg -1: dropped
  std::vector<int32_t> uses_;
};

}  // namespace

LoopProgram OptimizeInstrs(const Program& program, std::vector<RegisterForm> forms) {
  return Peephole(program, std::move(forms)).Run();
}

}  // namespace act
