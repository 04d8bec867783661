// The code of runs (run_code.h) with AVX-512, and with AVX512_BF16 where it is.
#if defined(__x86_64__)
#include <functional>

#include "kernels/cpu/avx512_decode.h"
#include "kernels/cpu/instructions.h"

namespace act {
namespace {

using Xbyak::Opmask;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

class Avx512 final : public Avx512Decode {
 public:
  Avx512(RunIsa isa, const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
      : Avx512Decode(isa, instrs, streams), rounds_by_instruction_(UsesBFloat16Instructions()) {}

 private:
  const Ymm half_{kTemp};
  const Opmask lanes_there_ = k7;

  void Rest() override {
    bzhi(spare_.cvt32(), ptr[rip + all_bits_], spare_.cvt32());
    kmovw(lanes_there_, spare_.cvt32());
    Vector(0, true);
  }

  void After() override {
    align(4);
    Words(zero_, 0, 1);
    Words(sign_, 0x80000000, 1);
    Words(magnitude_, 0x7FFFFFFF, 1);
    Words(one_, 0x3F800000, 1);
    Words(all_bits_, 0xFFFFFFFF, 1);
    Words(odd_bit_, 1, 1);
    Words(below_half_, 0x7FFF, 1);
    Words(nan_, 0x7FC00000, 1);
    Avx512Decode::After();
  }

  void Load(int to, size_t stream, int v, bool in_part) override {
    const Xbyak::Address at = At(stream, v);
    const Zmm all(to), lanes = in_part ? all | lanes_there_ | T_z : all;
    switch (type(stream)) {
      case StreamType::kFloat:
      case StreamType::kTensor:
        return vmovups(lanes, at);
      case StreamType::kSplat:
        return vbroadcastss(all, at);
      case StreamType::kBFloat16:
        vpmovzxwd(lanes, at);
        return vpslld(all, all, 16);
      case StreamType::kCode:  // only Decode reads it
        return;
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
    Later([this, from, others, rounded] {
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

  void Clip(const Xmm& to) override {
    vcmpps(k1, to, ptr_b[rip + zero_], kIsNotLess);
    vmovaps(to | k1 | T_z, to);
  }
  void Extreme(const Xmm& to, const Xmm& a, const Xmm& b, Predicate wins) override {
    vcmpps(k1, a, a, kIsUnordered);
    vcmpps(k2, a, b, wins);
    korw(k1, k1, k2);
    vblendmps(to | k1, b, a);
  }
  void Sided(const Xmm& to, const Xmm& a, const Xmm& side, const Xmm& least, bool of_magnitude) override {
    if (of_magnitude) Magnitude(temp_, a);
    const Xmm v = of_magnitude ? Xmm(temp_) : a;
    vcmpps(k1, v, least, kIsLess);
    vblendmps(to | k1, v, least);
    vcmpps(k1, side, ptr_b[rip + zero_], kIsNotGreater);
    vpxord(to | k1, to, ptr_b[rip + sign_]);
  }
  void Compare(const Xmm& to, const Xmm& a, const Xmm& b, Predicate predicate) override {
    vcmpps(k1, a, b, predicate);
    vbroadcastss(to | k1 | T_z, ptr[rip + one_]);
  }
  void Select(const Xmm& to, const Xmm& a, const Xmm& b, const Xmm& c) override {
    vcmpps(k1, a, ptr_b[rip + zero_], kIsEqual);
    vblendmps(to | k1, b, c);
  }
  void Negate(const Xmm& to, const Xmm& a) override { vpxord(to, a, ptr_b[rip + sign_]); }
  void Magnitude(const Xmm& to, const Xmm& a) override { vpandd(to, a, ptr_b[rip + magnitude_]); }
  void Floor(const Xmm& to, const Xmm& a) override { vrndscaleps(to, a, kFloorWithoutExceptions); }

  const bool rounds_by_instruction_;
  Xbyak::Label zero_, sign_, magnitude_, one_, all_bits_, odd_bit_, below_half_, nan_;
};

}  // namespace

std::shared_ptr<RunGenerator> Avx512Run(RunIsa isa, const std::vector<RunInstr>& instrs,
                                        const std::vector<StreamType>& streams) {
  return std::make_shared<Avx512>(isa, instrs, streams);
}

}  // namespace act
#endif
