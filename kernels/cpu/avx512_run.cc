// The code of runs (run_code.h) with AVX-512, and with AVX512_BF16 where it is.
#if defined(__x86_64__)
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>

#include "kernels/cpu/instructions.h"
#include "kernels/cpu/run_generator.h"
#include "kernels/math/rounding.h"

namespace act {
namespace {

using Xbyak::Opmask;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

class Avx512 final : public RunGenerator {
 public:
  Avx512(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
      : RunGenerator(instrs, streams, kLanes, HasSides(instrs) ? kSecondTemp : kTemp),
        rounds_by_instruction_(UsesBFloat16Instructions()) {}

 private:
  static constexpr int kLanes = 16, kTemp = 31, kSecondTemp = 30;
  const Zmm temp_{kTemp}, second_temp_{kSecondTemp};  // the second where there are kSides
  const Ymm half_{kTemp};
  const Opmask lanes_there_ = k7;

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
    for (auto& [word, label] : words_) Words(label, word, 1);
    align(64);
    L(turns_);
    for (uint32_t lane = 0; lane < kLanes; ++lane) dd(0u - (lane * kWeylStep << 16));
  }
  // A word in memory, for all lanes.
  Xbyak::Address All(uint32_t word) { return ptr_b[rip + words_[word]]; }

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

  static bool HasSides(const std::vector<RunInstr>& instrs) {
    return std::any_of(instrs.begin(), instrs.end(), [](const RunInstr& i) {
      return i.op == RunOp::kDecode && i.planes.value == PlaneValue::kSides;
    });
  }

  void StartDither(int turned, size_t stream) override {
    vpbroadcastd(Zmm(turned), ptr[GroupAt(stream, offsetof(PlaneGroup, turned))]);
    vpaddd(Zmm(turned), Zmm(turned), ptr[rip + turns_]);
  }

  void Decode(const PlaneForm& form, int to_number, int turned, size_t stream, int v) override {
    const Zmm to(to_number);
    if (form.value == PlaneValue::kMask) return DecodeMask(form, to, v);
    Positions(form, to, turned, v);
    const auto number = [&](size_t offset) { return ptr[GroupAt(stream, offset)]; };
    // temp = what the group has at this offset, or where k1 is at the other.
    const auto either = [&](const Zmm& temp, size_t offset, size_t other) {
      vbroadcastss(temp, number(offset));
      vbroadcastss(temp | k1, number(other));
    };
    const auto scale = [&] { either(temp_, offsetof(PlaneGroup, scale), offsetof(PlaneGroup, other_scale)); };
    const auto scale_evenly = [&] {
      vcvtdq2ps(to, to);
      vbroadcastss(temp_, number(offsetof(PlaneGroup, scale)));
      vfmadd213ps(to, temp_, ptr_b[GroupAt(stream, offsetof(PlaneGroup, minimum))]);
    };
    // k1 = the codes from `first` on. Their positions are at most half a level below it.
    const auto from = [&](int first) { vpcmpgtd(k1, to, All(static_cast<uint32_t>(first * 256 - 128))); };
    switch (form.value) {
      case PlaneValue::kCode:
        return vcvtdq2ps(to, to);
      case PlaneValue::kUniform:
        return scale_evenly();
      case PlaneValue::kSign:
      case PlaneValue::kSides:
        from(form.to);
        vpsubd(to | k1, to, All(static_cast<uint32_t>(form.to * 256)));
        vcvtdq2ps(to, to);
        scale();
        if (form.value == PlaneValue::kSign) return vmulps(to, to, temp_);
        either(second_temp_, offsetof(PlaneGroup, minimum), offsetof(PlaneGroup, other_minimum));
        return vfmadd213ps(to, temp_, second_temp_);
      default:  // kZero
        from(1);
        vpsubd(to, to, All(256));
        scale_evenly();
        knotw(k1, k1);
        return vbroadcastss(to | k1, number(offsetof(PlaneGroup, other_minimum)));
    }
  }

  // to = 256 times the code plus the offset (DitherOffsets), or the code itself.
  void Positions(const PlaneForm& form, const Zmm& to, int turned, int v) {
    const int one = form.value == PlaneValue::kCode ? 1 : 256;
    if (form.dither) {
      vpsrad(to, Zmm(turned), 24);
      vpsubd(Zmm(turned), Zmm(turned), All(kLanes * kWeylStep << 16));
      vpord(to, to, ptr_b[rip + odd_bit_]);
    }
    for (int b = 0; b < form.bits; ++b) {
      kmovw(k1, word[PlaneAt(form, b, v)]);
      const auto level = static_cast<uint32_t>(one << b);
      if (b == 0 && !form.dither)
        vpbroadcastd(to | k1 | T_z, ptr[rip + words_[level]]);
      else
        vpaddd(to | k1, to, All(level));
    }
  }

  void DecodeMask(const PlaneForm& form, const Zmm& to, int v) {
    const bool above = form.from > 0, below = form.to < 1 << form.bits;
    if (above) FromCode(k1, form, form.from, v);
    if (below) FromCode(k2, form, form.to, v);
    if (above && below)
      kandnw(k1, k2, k1);
    else if (below)
      knotw(k1, k2);
    else if (!above)
      kxnorw(k1, k1, k1);
    vbroadcastss(to | k1 | T_z, ptr[rip + one_]);
  }
  // mask = where codes are at least `first`, which is not 0: bits are compared, from the lowest that `first` has.
  void FromCode(const Opmask& mask, const PlaneForm& form, int first, int v) {
    int b = 0;
    while ((first >> b & 1) == 0) ++b;
    movzx(spare_.cvt32(), word[PlaneAt(form, b, v)]);
    for (++b; b < form.bits; ++b)
      if ((first >> b & 1) != 0)
        and_(spare_.cvt16(), word[PlaneAt(form, b, v)]);
      else
        or_(spare_.cvt16(), word[PlaneAt(form, b, v)]);
    kmovw(mask, spare_.cvt32());
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
  std::vector<std::function<void()>> later_;  // emit what the function leaves to stand after it
  Xbyak::Label zero_, sign_, magnitude_, one_, all_bits_, odd_bit_, below_half_, nan_, turns_;
  std::map<uint32_t, Xbyak::Label> words_;
};

}  // namespace

std::shared_ptr<RunGenerator> Avx512Run(const std::vector<RunInstr>& instrs,
                                        const std::vector<StreamType>& streams) {
  return std::make_shared<Avx512>(instrs, streams);
}

}  // namespace act
#endif
