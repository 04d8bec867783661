// The code of runs (run_code.h) with AVX-512, and with AVX512_BF16 where it is.
#if defined(__x86_64__)
#include <functional>

#include "kernels/cpu/instructions.h"
#include "kernels/cpu/run_generator.h"

namespace act {
namespace {

using Xbyak::Ymm;
using Xbyak::Zmm;

class Avx512 final : public RunGenerator {
 public:
  Avx512(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
      : RunGenerator(instrs, streams, kLanes, kValues), rounds_by_instruction_(UsesBFloat16Instructions()) {}

 private:
  static constexpr int kLanes = 16, kValues = 31, kTemp = 31;
  const Zmm temp_{kTemp};
  const Ymm half_{kTemp};
  const Xbyak::Opmask lanes_there_ = k7;

  void Rest() override {
    bzhi(spare_.cvt32(), ptr[rip + all_bits_], spare_.cvt32());
    kmovw(lanes_there_, spare_.cvt32());
    Vector(0, true);
  }

  void After() override {
    for (const auto& emit : later_) emit();
    align(4);
    Words(zero_, 0, 1);
    Words(sign_, 0x80000000, 1);
    Words(magnitude_, 0x7FFFFFFF, 1);
    Words(one_, 0x3F800000, 1);
    Words(all_bits_, 0xFFFFFFFF, 1);
    Words(odd_bit_, 1, 1);
    Words(below_half_, 0x7FFF, 1);
    Words(nan_, 0x7FC00000, 1);
  }

  void Load(int to, size_t stream, int v, bool in_part) override {
    const Xbyak::Address at = At(stream, v);
    const Zmm all(to), lanes = in_part ? all | lanes_there_ | T_z : all;
    switch (type(stream)) {
      case StreamType::kFloat:
        return vmovups(lanes, at);
      case StreamType::kSplat:
        return vbroadcastss(all, at);
      case StreamType::kBFloat16:
        vpmovzxwd(lanes, at);
        return vpslld(all, all, 16);
    }
  }

  void Store(int from, size_t stream, int v, bool in_part) override {
    const bool rounds = type(stream) == StreamType::kBFloat16;
    if (rounds) Round(Zmm(from));
    const Xbyak::Address at = At(stream, v), to = in_part ? at | lanes_there_ : at;
    rounds ? vmovdqu16(to, half_) : vmovups(to, Zmm(from));
  }

  void Sum(int a, int b, size_t stream, int v, bool in_part) override {
    Load(kTemp, stream, v, in_part);
    b < 0 ? vaddps(temp_, temp_, Zmm(a)) : vfmadd231ps(temp_, Zmm(a), Zmm(b));
    Store(kTemp, stream, v, in_part);
  }

  // half_ = the numbers in bfloat16, to nearest even. The instruction takes denormal numbers for 0 and keeps bits of a
  // NaN. So vectors that have any of these are left to integer arithmetic.
  void Round(const Zmm& from) {
    if (!rounds_by_instruction_) return RoundByIntegers(from);
    constexpr uint8_t kQuietNaN = 0x01, kDenormal = 0x20, kSignalingNaN = 0x80;
    const auto others = std::make_shared<Xbyak::Label>(), rounded = std::make_shared<Xbyak::Label>();
    vfpclassps(k1, from, kQuietNaN | kDenormal | kSignalingNaN);
    kortestw(k1, k1);
    jnz(*others, T_NEAR);
    vcvtneps2bf16(half_, from);
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
    vpmovdw(half_, temp_);
  }

  void Apply(TileInstr instr, int to_number, int a_number, int b_number, int c_number) override {
    const Zmm to(to_number), a(std::max(a_number, 0)), b(std::max(b_number, 0)), c(std::max(c_number, 0));
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
        vpandd(temp_, a, ptr_b[rip + magnitude_]);
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
        return vpxord(to, a, ptr_b[rip + sign_]);
      case Opcode::kAbs:
        return vpandd(to, a, ptr_b[rip + magnitude_]);
      case Opcode::kSqrt:
        return vsqrtps(to, a);
      case Opcode::kFloor:
        return vrndscaleps(to, a, kFloorWithoutExceptions);
      case Opcode::kGreater:
        vcmpps(k1, a, b, kIsGreater);
        return vbroadcastss(to | k1 | T_z, ptr[rip + one_]);
      case Opcode::kEqual:
        vcmpps(k1, a, b, kIsEqual);
        return vbroadcastss(to | k1 | T_z, ptr[rip + one_]);
      case Opcode::kSelect:
        vcmpps(k1, a, ptr_b[rip + zero_], kIsEqual);
        return vblendmps(to | k1, b, c);
      default:
        return;  // HasRunCode has refused it
    }
  }

  // max(v, 0); a NaN stays NaN.
  void Clip(TileInstr instr, const Zmm& v) {
    if (!instr.relu) return;
    vcmpps(k1, v, ptr_b[rip + zero_], kIsNotLess);
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
    vcmpps(k1, side, ptr_b[rip + zero_], kIsNotGreater);
    vpxord(to | k1, to, ptr_b[rip + sign_]);
  }

  const bool rounds_by_instruction_;
  std::vector<std::function<void()>> later_;  // emit what the function leaves to stand after it
  Xbyak::Label zero_, sign_, magnitude_, one_, all_bits_, odd_bit_, below_half_, nan_;
};

}  // namespace

std::shared_ptr<RunGenerator> Avx512Run(const std::vector<RunInstr>& instrs,
                                        const std::vector<StreamType>& streams) {
  return std::make_shared<Avx512>(instrs, streams);
}

}  // namespace act
#endif
