// Vectors of floats from and to bfloat16 memory. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_BFLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_BFLOAT16_INL_H_
#undef ACT_BFLOAT16_INL_H_
#else
#define ACT_BFLOAT16_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/math/convert.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

template <class DF>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<DF> LoadBFloat16(DF d, const BFloat16* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<uint32_t, DF> wide;
  const hn::Rebind<uint16_t, DF> narrow;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

// x rounded to nearest even in the upper halves, by integer arithmetic: AVX512_BF16's own conversion
// takes denormal numbers for 0. Not for NaN.
template <class DF>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::Rebind<uint32_t, DF>> RoundedBits(
    DF /*d*/, hwy::HWY_NAMESPACE::Vec<DF> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<uint32_t, DF> wide;
  const auto bits = hn::BitCast(wide, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  return hn::Add(hn::Add(bits, hn::Set(wide, 0x7FFFu)), odd);
}

template <class DF>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::Rebind<uint32_t, DF>> WithNaN(
    DF /*d*/, hwy::HWY_NAMESPACE::Vec<DF> x,
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::Rebind<uint32_t, DF>> rounded) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<uint32_t, DF> wide;
  return hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(x)), hn::Set(wide, 0x7FC00000u), rounded);
}

// How many elements RoundBFloat16s rounds: two vectors, whose upper halves one instruction gathers.
inline constexpr size_t kRoundedAtOnce = 2 * hwy::HWY_NAMESPACE::MaxLanes(HWY_CAPPED(float, 16)());

HWY_INLINE void RoundBFloat16s(const float* from, BFloat16* to) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < kRoundedAtOnce; ++i) to[i] = FromFloat<BFloat16>(from[i]);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const HWY_CAPPED(float, 16) d;
  const hn::Repartition<uint16_t, decltype(d)> narrow;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + hn::Lanes(d));
  auto low = RoundedBits(d, a), high = RoundedBits(d, b);
  // Where either is NaN, so is their sum (and where they are opposite infinities).
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(a, b))))) {
    low = WithNaN(d, a, low);
    high = WithNaN(d, b, high);
  }
  hn::StoreU(hn::ConcatOdd(narrow, hn::BitCast(narrow, high), hn::BitCast(narrow, low)), narrow,
             reinterpret_cast<uint16_t*>(to));
#endif
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_BFLOAT16_INL_H_
