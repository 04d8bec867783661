// The code of runs (run_code.h) with AVX2 and FMA.
#if defined(__x86_64__)
#include <functional>

#include "kernels/cpu/avx2_decode.h"

namespace act {
namespace {

using Xbyak::Xmm;
using Xbyak::Ymm;

// Words of all lanes.
constexpr uint32_t kZero = 0, kSign = 0x80000000, kMagnitude = 0x7FFFFFFF, kOddBit = 0x10000,
                   kBelowHalf = 0x7FFF, kNaN = 0x7FC00000;

class Avx2 final : public Avx2Decode {
 public:
  Avx2(const std::vector<RunInstr>& instrs, const std::vector<StreamType>& streams)
      : Avx2Decode(instrs, streams) {}

 private:
  // One by one.
  void Rest() override {
    Xbyak::Label next;
    L(next);
    Vector(0, true);
    inc(element_);
    cmp(element_, count_);
    jb(next, T_NEAR);
  }

  void Load(int to, size_t stream, int v, bool in_part) override {
    const Xbyak::Address at = At(stream, v);
    switch (type(stream)) {
      case StreamType::kFloat:
      case StreamType::kTensor:
        return in_part ? vmovss(Xmm(to), at) : vmovups(Ymm(to), at);
      case StreamType::kSplat:
        return vbroadcastss(Ymm(to), at);
      case StreamType::kBFloat16:
        if (in_part) {
          vpxor(Xmm(to), Xmm(to), Xmm(to));
          return vpinsrw(Xmm(to), Xmm(to), at, 1);
        }
        vbroadcasti128(Ymm(to), at);
        return vpshufb(Ymm(to), Ymm(to), Of(kWiden));
      case StreamType::kCode:  // only Decode reads it
        return;
    }
  }

  void Store(int from, size_t stream, int v, bool in_part) override {
    const bool rounds = type(stream) == StreamType::kBFloat16;
    if (rounds) Round(Ymm(from));
    const Xbyak::Address at = At(stream, v);
    if (rounds)
      in_part ? vpextrw(at, Xmm(kTemp), 0) : vmovdqu(at, Xmm(kTemp));
    else
      in_part ? vmovss(at, Xmm(from)) : vmovups(at, Ymm(from));
  }

  void Sum(int a, int b, size_t stream, int v, bool in_part) override {
    Load(kTemp, stream, v, in_part);
    b < 0 ? vaddps(temp_, temp_, Ymm(a)) : vfmadd231ps(temp_, Ymm(a), Ymm(b));
    Store(kTemp, stream, v, in_part);
  }

  // The lower half of temp_ = the numbers in bfloat16, to nearest even.
  void Round(const Ymm& from) {
    vpand(temp_, from, All(kOddBit));
    vpcmpeqd(temp_, temp_, All(kOddBit));  // -1 where it is set
    vpaddd(mask_, from, All(kBelowHalf));
    vpsubd(temp_, mask_, temp_);
    // NaNs are rare, and the branch costs less than a blend.
    const auto nan = std::make_shared<Xbyak::Label>(), rounded = std::make_shared<Xbyak::Label>();
    vcmpps(mask_, from, from, kIsUnordered);
    vmovmskps(spare_.cvt32(), mask_);
    test(spare_.cvt32(), spare_.cvt32());
    jnz(*nan, T_NEAR);
    L(*rounded);
    Later([this, nan, rounded] {
      L(*nan);
      vblendvps(temp_, temp_, All(kNaN), mask_);
      jmp(*rounded, T_NEAR);
    });
    vpshufb(temp_, temp_, Of(kNarrow));
    vextracti128(Xmm(mask_.getIdx()), temp_, 1);
    vpor(Xmm(kTemp), Xmm(kTemp), Xmm(mask_.getIdx()));
  }

  void Clip(const Xmm& to) override {
    vcmpps(mask_, to, All(kZero), kIsNotLess);
    vandps(to, to, mask_);
  }
  void Extreme(const Xmm& to, const Xmm& a, const Xmm& b, Predicate wins) override {
    vcmpps(mask_, a, a, kIsUnordered);
    vcmpps(temp_, a, b, wins);
    vorps(mask_, mask_, temp_);
    vblendvps(to, b, a, mask_);
  }
  void Sided(const Xmm& to, const Xmm& a, const Xmm& side, const Xmm& least, bool of_magnitude) override {
    if (of_magnitude) Magnitude(temp_, a);
    const Xmm v = of_magnitude ? Xmm(temp_) : a;
    vcmpps(mask_, v, least, kIsLess);
    vblendvps(to, v, least, mask_);
    vcmpps(mask_, side, All(kZero), kIsNotGreater);
    vandps(mask_, mask_, All(kSign));
    vxorps(to, to, mask_);
  }
  void Compare(const Xmm& to, const Xmm& a, const Xmm& b, Predicate predicate) override {
    vcmpps(to, a, b, predicate);
    vandps(to, to, All(kOne));
  }
  void Select(const Xmm& to, const Xmm& a, const Xmm& b, const Xmm& c) override {
    vcmpps(mask_, a, All(kZero), kIsEqual);
    vblendvps(to, b, c, mask_);
  }
  void Negate(const Xmm& to, const Xmm& a) override { vxorps(to, a, All(kSign)); }
  void Magnitude(const Xmm& to, const Xmm& a) override { vandps(to, a, All(kMagnitude)); }
  void Floor(const Xmm& to, const Xmm& a) override { vroundps(to, a, kFloorWithoutExceptions); }
};

}  // namespace

std::shared_ptr<RunGenerator> Avx2Run(const std::vector<RunInstr>& instrs,
                                      const std::vector<StreamType>& streams) {
  return std::make_shared<Avx2>(instrs, streams);
}

}  // namespace act
#endif
