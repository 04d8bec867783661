#include "kernels/cpu/run_code.h"

#include <algorithm>
#include <exception>
#include <functional>

#include "kernels/cpu/bfloat16_tile.h"
#include "kernels/cpu/instructions.h"

#if defined(__x86_64__)
#include <xbyak/xbyak.h>
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

#if defined(__x86_64__)
namespace {

using namespace Xbyak;

constexpr int kLanes = 16, kBytesAhead = static_cast<int>(kBFloat16Ahead * sizeof(BFloat16));

// Predicates of vcmpps. The two that begin with kNot hold where an operand is NaN, the others do not.
enum Predicate : uint8_t {
  kIsEqual = 0,
  kIsUnordered = 3,
  kIsLess = 17,
  kIsNotLess = 21,
  kIsNotGreater = 26,
  kIsGreater = 30
};

class Generator final : public RunCode, private CodeGenerator {
 public:
  Generator(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
      : CodeGenerator(DEFAULT_MAX_CODE_SIZE, AutoGrow),
        instrs_(instrs),
        streams_(streams),
        rounds_by_instruction_(UsesBFloat16Instructions()) {
    for (size_t i = 0; i < instrs_.size(); ++i)
      for (const int32_t value : {instrs_[i].to, instrs_[i].a, instrs_[i].b, instrs_[i].c}) {
        if (value < 0) continue;
        last_.resize(std::max(last_.size(), static_cast<size_t>(value) + 1));
        last_[static_cast<size_t>(value)] = i;
      }
    register_.resize(last_.size());
    Function();
    Constants();
    if (!fits_) return;
    ready(PROTECT_RE);
    run_ = getCode<void (*)(const void* const*, size_t)>();
  }
  bool fits() const { return fits_; }

 private:
  // The streams' addresses. Those that do not fit are fetched each time.
  static constexpr size_t kHeld = 11, kOwn = 5;  // the first may be changed, the others belong to the caller
  Reg64 Held(size_t s) const {
    constexpr int kCodes[kHeld] = {Operand::RDX, Operand::RCX, Operand::R8,  Operand::R9,
                                   Operand::R10, Operand::RBX, Operand::RBP, Operand::R12,
                                   Operand::R13, Operand::R14, Operand::R15};
    return Reg64(kCodes[s]);
  }
  const Reg64 table_ = rdi, count_ = rsi, element_ = rax, spare_ = r11;
  // Values have the registers below these.
  static constexpr int kValues = 28;
  const Zmm temp_{28}, one_{29}, sign_{30}, zero_{31};
  const Opmask rest_ = k7;  // of the last vector: the lanes that there are

  // void run(const void* const* streams, size_t count)
  void Function() {
    const size_t held = std::min(streams_.size(), kHeld);
    for (size_t s = kOwn; s < held; ++s) push(Held(s));
    for (size_t s = 0; s < held; ++s) mov(Held(s), ptr[table_ + 8 * s]);
    vpxord(zero_, zero_, zero_);
    vpbroadcastd(sign_, ptr[rip + sign_bit_]);
    vpbroadcastd(one_, ptr[rip + one_bits_]);
    xor_(eax, eax);
    Label pairs, vectors, done;
    L(pairs);
    lea(spare_, ptr[element_ + 2 * kLanes]);
    cmp(spare_, count_);
    ja(vectors, T_NEAR);
    AskAhead();
    Vector(0, false);
    Vector(1, false);
    add(element_, 2 * kLanes);
    jmp(pairs, T_NEAR);
    L(vectors);
    mov(spare_, count_);
    sub(spare_, element_);
    jbe(done, T_NEAR);
    bzhi(spare_.cvt32(), ptr[rip + all_bits_], spare_.cvt32());
    kmovw(rest_, spare_.cvt32());
    Vector(0, true);
    add(element_, kLanes);
    jmp(vectors, T_NEAR);
    L(done);
    for (size_t s = held; s-- > kOwn;) pop(Held(s));
    vzeroupper();
    ret();
    for (const auto& emit : later_) emit();
  }

  void Constants() {
    const auto word = [this](Label& label, uint32_t bits) {
      L(label);
      dd(bits);
    };
    align(4);
    word(sign_bit_, 0x80000000);
    word(one_bits_, 0x3F800000);
    word(all_bits_, 0xFFFFFFFF);
    word(odd_bit_, 1);
    word(below_half_, 0x7FFF);
    word(nan_, 0x7FC00000);
  }

  // Prefetches a line of each bfloat16 tensor, two tiles ahead. A line is two vectors.
  void AskAhead() {
    for (size_t s = 0; s < streams_.size(); ++s)
      if (streams_[s] == StreamType::kBFloat16) prefetcht0(ptr[Address(s) + element_ * 2 + kBytesAhead]);
  }

  Reg64 Address(size_t s) {
    if (s < kHeld) return Held(s);
    mov(spare_, ptr[table_ + 8 * s]);
    return spare_;
  }
  // Of vector `v` of those that this turn works on.
  Xbyak::Address At(size_t s, int v) {
    const Reg64 base = Address(s);
    if (streams_[s] == StreamType::kSplat) return ptr[base];
    if (streams_[s] == StreamType::kBFloat16) return ptr[base + element_ * 2 + v * kLanes * 2];
    return ptr[base + element_ * 4 + v * kLanes * 4];
  }

  // All instructions, on one vector.
  void Vector(int v, bool in_part) {
    free_.clear();
    for (int r = kValues; r-- > 0;) free_.push_back(r);
    for (size_t i = 0; i < instrs_.size() && fits_; ++i) {
      const RunInstr& instr = instrs_[i];
      if (instr.to >= 0) {
        if (free_.empty()) {
          fits_ = false;
          return;
        }
        register_[static_cast<size_t>(instr.to)] = free_.back();
        free_.pop_back();
      }
      Instruction(instr, v, in_part);
      std::vector<int32_t> ended{instr.to, instr.a, instr.b, instr.c};
      std::sort(ended.begin(), ended.end());
      ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
      for (const int32_t value : ended)
        if (value >= 0 && last_[static_cast<size_t>(value)] == i)
          free_.push_back(register_[static_cast<size_t>(value)]);
    }
  }

  Zmm Of(int32_t value) const { return Zmm(value < 0 ? 0 : register_[static_cast<size_t>(value)]); }

  void Instruction(const RunInstr& i, int v, bool in_part) {
    const auto stream = static_cast<size_t>(i.stream);
    switch (i.op) {
      case RunOp::kLoad:
        return Load(Of(i.to), stream, v, in_part);
      case RunOp::kApply:
        return Apply(i.instr, Of(i.to), Of(i.a), Of(i.b), Of(i.c));
      case RunOp::kStore:
        return Store(Of(i.a), stream, v, in_part);
      case RunOp::kSum:
        Load(temp_, stream, v, in_part);
        vaddps(temp_, temp_, Of(i.a));
        return Store(temp_, stream, v, in_part);
      case RunOp::kSumMul:
        Load(temp_, stream, v, in_part);
        vfmadd231ps(temp_, Of(i.a), Of(i.b));
        return Store(temp_, stream, v, in_part);
    }
  }

  void Load(const Zmm& to, size_t stream, int v, bool in_part) {
    const Xbyak::Address at = At(stream, v);
    const Zmm lanes = in_part ? to | rest_ | T_z : to;
    switch (streams_[stream]) {
      case StreamType::kFloat:
        return vmovups(lanes, at);
      case StreamType::kSplat:
        return vbroadcastss(to, at);
      case StreamType::kBFloat16:
        vpmovzxwd(lanes, at);
        return vpslld(to, to, 16);
    }
  }

  void Store(const Zmm& from, size_t stream, int v, bool in_part) {
    if (streams_[stream] == StreamType::kBFloat16) Round(from);
    const Xbyak::Address at = At(stream, v);
    if (streams_[stream] == StreamType::kBFloat16)
      in_part ? vmovdqu16(at | rest_, Ymm(temp_.getIdx())) : vmovdqu16(at, Ymm(temp_.getIdx()));
    else
      in_part ? vmovups(at | rest_, from) : vmovups(at, from);
  }

  // The lower half of temp_ = the numbers in bfloat16, to nearest even. AVX512_BF16's instruction takes denormal
  // numbers for 0 and keeps bits of a NaN. So vectors that have any of these are left to integer arithmetic.
  void Round(const Zmm& from) {
    if (!rounds_by_instruction_) return RoundByIntegers(from);
    constexpr uint8_t kQuietNaN = 0x01, kDenormal = 0x20, kSignalingNaN = 0x80;
    const auto others = std::make_shared<Label>(), rounded = std::make_shared<Label>();
    vfpclassps(k1, from, kQuietNaN | kDenormal | kSignalingNaN);
    kortestw(k1, k1);
    jnz(*others, T_NEAR);
    vcvtneps2bf16(Ymm(temp_.getIdx()), from);
    L(*rounded);
    later_.push_back([this, from, others, rounded] {
      L(*others);
      RoundByIntegers(from);
      jmp(*rounded, T_NEAR);
    });
  }
  void RoundByIntegers(const Zmm& from) {
    vpsrld(temp_, from, 16);
    vpandd(temp_, temp_, ptr_b[rip + odd_bit_]);
    vpaddd(temp_, temp_, from);
    vpaddd(temp_, temp_, ptr_b[rip + below_half_]);
    vcmpps(k1, from, from, kIsUnordered);
    vpbroadcastd(temp_ | k1, ptr[rip + nan_]);
    vpsrld(temp_, temp_, 16);
    vpmovdw(Ymm(temp_.getIdx()), temp_);
  }

  // As ApplyTile, to the bit.
  void Apply(TileInstr instr, const Zmm& to, const Zmm& a, const Zmm& b, const Zmm& c) {
    switch (instr.op) {
      case TileOp::kCopy:
        return vmovaps(to, a);
      case TileOp::kMulSub:
        vmovaps(to, c);
        vfmsub231ps(to, a, b);
        return Clip(instr, to);
      case TileOp::kNegMulAdd:
        vmovaps(to, c);
        vfnmadd231ps(to, a, b);
        return Clip(instr, to);
      case TileOp::kSided:
        return Sided(to, a, b, c);
      case TileOp::kSidedAbs:
        vpandnd(temp_, sign_, a);
        return Sided(to, temp_, b, c);
      default:
        break;
    }
    switch (static_cast<Opcode>(instr.op)) {
      case Opcode::kAdd:
        vaddps(to, a, b);
        return Clip(instr, to);
      case Opcode::kSub:
        vsubps(to, a, b);
        return Clip(instr, to);
      case Opcode::kMul:
        vmulps(to, a, b);
        return Clip(instr, to);
      case Opcode::kFma:
        vmovaps(to, c);
        vfmadd231ps(to, a, b);
        return Clip(instr, to);
      case Opcode::kDiv:
        return vdivps(to, a, b);
      case Opcode::kMax:
        return Extreme(to, a, b, kIsGreater);
      case Opcode::kMin:
        return Extreme(to, a, b, kIsLess);
      case Opcode::kNeg:
        return vpxord(to, a, sign_);
      case Opcode::kAbs:
        return vpandnd(to, sign_, a);
      case Opcode::kSqrt:
        return vsqrtps(to, a);
      case Opcode::kFloor:
        return vrndscaleps(to, a, 9);  // toward minus infinity, without exceptions
      case Opcode::kGreater:
        vcmpps(k1, a, b, kIsGreater);
        return vmovaps(to | k1 | T_z, one_);
      case Opcode::kEqual:
        vcmpps(k1, a, b, kIsEqual);
        return vmovaps(to | k1 | T_z, one_);
      case Opcode::kSelect:
        vcmpps(k1, a, zero_, kIsEqual);
        return vblendmps(to | k1, b, c);
      default:
        fits_ = false;  // HasRunCode says which there are
    }
  }

  // max(v, 0); a NaN stays NaN.
  void Clip(TileInstr instr, const Zmm& v) {
    if (!instr.relu) return;
    vcmpps(k1, v, zero_, kIsNotLess);
    vmovaps(v | k1 | T_z, v);
  }
  // a where it is NaN or `wins` over b, else b.
  void Extreme(const Zmm& to, const Zmm& a, const Zmm& b, Predicate wins) {
    vcmpps(k1, a, a, kIsUnordered);
    vcmpps(k2, a, b, wins);
    korw(k1, k1, k2);
    vblendmps(to | k1, b, a);
  }
  // max(v, least), negative where `side` is not above 0.
  void Sided(const Zmm& to, const Zmm& v, const Zmm& side, const Zmm& least) {
    vcmpps(k1, v, least, kIsLess);
    vblendmps(to | k1, v, least);
    vcmpps(k1, side, zero_, kIsNotGreater);
    vpxord(to | k1, to, sign_);
  }

  const std::vector<RunInstr>& instrs_;
  const std::vector<StreamType>& streams_;
  const bool rounds_by_instruction_;
  std::vector<size_t> last_;                  // of each value: the instruction that uses it last
  std::vector<int> register_, free_;          // of each value; those of no value
  std::vector<std::function<void()>> later_;  // emit what stands after the function
  Label sign_bit_, one_bits_, all_bits_, odd_bit_, below_half_, nan_;
  bool fits_ = true;
};

}  // namespace

std::shared_ptr<const RunCode> RunCode::Make(const std::vector<RunInstr>& instrs,
                                             const std::vector<StreamType>& streams) {
  try {
    auto code = std::make_shared<Generator>(instrs, streams);
    if (code->fits()) return code;
  } catch (const std::exception&) {  // of Xbyak: no memory that may be executed
  }
  return nullptr;
}

#else

std::shared_ptr<const RunCode> RunCode::Make(const std::vector<RunInstr>&, const std::vector<StreamType>&) {
  return nullptr;
}

#endif

}  // namespace act
