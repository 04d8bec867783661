// The code of runs (run_code.h) with AVX2 and FMA.
#if defined(__x86_64__)
#include "kernels/cpu/avx2_decode.h"

namespace act {
namespace {

using Xbyak::Xmm;
using Xbyak::Ymm;

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

  void After() override {
    align(32);
    Words(zero_, 0, kLanes);
    Words(sign_, 0x80000000, kLanes);
    Words(magnitude_, 0x7FFFFFFF, kLanes);
    Words(one_, 0x3F800000, kLanes);
    Words(odd_bit_, 1, kLanes);
    Words(below_half_, 0x7FFF, kLanes);
    Words(nan_, 0x7FC00000, kLanes);
    Avx2Decode::After();
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
          vpinsrw(Xmm(to), Xmm(to), at, 0);
        } else {
          vpmovzxwd(Ymm(to), at);
        }
        return vpslld(Ymm(to), Ymm(to), 16);
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
    vpsrld(temp_, from, 16);
    vpand(temp_, temp_, ptr[rip + odd_bit_]);
    vpaddd(temp_, temp_, from);
    vpaddd(temp_, temp_, ptr[rip + below_half_]);
    vcmpps(mask_, from, from, kIsUnordered);
    vblendvps(temp_, temp_, ptr[rip + nan_], mask_);
    vpsrld(temp_, temp_, 16);
    vextracti128(Xmm(mask_.getIdx()), temp_, 1);
    vpackusdw(Xmm(kTemp), Xmm(kTemp), Xmm(mask_.getIdx()));
  }

  void Clip(const Xmm& to) override {
    vcmpps(mask_, to, ptr[rip + zero_], kIsNotLess);
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
    vcmpps(mask_, side, ptr[rip + zero_], kIsNotGreater);
    vandps(mask_, mask_, ptr[rip + sign_]);
    vxorps(to, to, mask_);
  }
  void Compare(const Xmm& to, const Xmm& a, const Xmm& b, Predicate predicate) override {
    vcmpps(to, a, b, predicate);
    vandps(to, to, ptr[rip + one_]);
  }
  void Select(const Xmm& to, const Xmm& a, const Xmm& b, const Xmm& c) override {
    vcmpps(mask_, a, ptr[rip + zero_], kIsEqual);
    vblendvps(to, b, c, mask_);
  }
  void Negate(const Xmm& to, const Xmm& a) override { vxorps(to, a, ptr[rip + sign_]); }
  void Magnitude(const Xmm& to, const Xmm& a) override { vandps(to, a, ptr[rip + magnitude_]); }
  void Floor(const Xmm& to, const Xmm& a) override { vroundps(to, a, kFloorWithoutExceptions); }

  Xbyak::Label zero_, sign_, magnitude_, one_, odd_bit_, below_half_, nan_;
};

}  // namespace

std::shared_ptr<RunGenerator> Avx2Run(const std::vector<RunInstr>& instrs,
                                      const std::vector<StreamType>& streams) {
  return std::make_shared<Avx2>(instrs, streams);
}

}  // namespace act
#endif
