// Casts: kernels/math/small_float.h in vectors. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_SMALL_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_SMALL_FLOAT_INL_H_
#undef ACT_SMALL_FLOAT_INL_H_
#else
#define ACT_SMALL_FLOAT_INL_H_
#endif

#include "kernels/cpu/bit_planes-inl.h"
#include "kernels/math/small_float.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

HWY_INLINE VU EncodeSmallFloats(const SmallFloat& f, V x) {
  const DU du;
  const VU bits = hn::BitCast(du, x), magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const VU sign = hn::ShiftLeftSame(hn::ShiftRight<31>(bits), f.Bits() - 1);
  const int cut = 23 - f.mantissa_bits;
  const VU capped = hn::Min(magnitude, hn::Set(du, LargestBits(f)));
  const VU odd = hn::And(hn::ShiftRightSame(capped, cut), hn::Set(du, 1u));
  const VU rounded = hn::Add(hn::Add(capped, hn::Set(du, (1u << (cut - 1)) - 1)), odd);
  VU code = hn::Sub(hn::ShiftRightSame(rounded, cut),
                    hn::Set(du, static_cast<uint32_t>(127 - f.Bias()) << f.mantissa_bits));
  if (f.exponent_bits < 8) {
    const VU magic = hn::Set(du, DenormalMagicBits(f));
    const VU denormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(D(), magnitude), hn::BitCast(D(), magic))), magic);
    code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, LeastNormalBits(f))), denormal, code);
  }
  const VU infinity = hn::Set(du, 0x7F800000u);
  code = hn::IfThenElse(hn::Eq(magnitude, infinity), hn::Set(du, f.Infinity()), code);
  return hn::IfThenElse(hn::Gt(magnitude, infinity), hn::Set(du, f.NaN()), hn::Or(sign, code));
}

HWY_INLINE V DecodeSmallFloats(const SmallFloat& f, VU bits) {
  const DU du;
  const VU sign = hn::ShiftLeft<31>(hn::ShiftRightSame(bits, f.Bits() - 1));
  const VU magnitude = hn::And(bits, hn::Set(du, (1u << (f.Bits() - 1)) - 1));
  VU value = hn::Add(hn::ShiftLeftSame(magnitude, 23 - f.mantissa_bits),
                     hn::Set(du, static_cast<uint32_t>(127 - f.Bias()) << 23));
  if (f.exponent_bits < 8) {
    const V denormal =
        hn::Mul(hn::ConvertTo(D(), hn::BitCast(DI(), magnitude)), hn::Set(D(), LeastDenormal(f)));
    value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 1u << f.mantissa_bits)), hn::BitCast(du, denormal),
                           value);
  }
  value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, f.Largest())), hn::Set(du, 0x7FC00000u), value);
  if (f.infinities)
    value = hn::IfThenElse(hn::Eq(magnitude, hn::Set(du, f.Infinity())), hn::Set(du, 0x7F800000u), value);
  return hn::BitCast(D(), hn::Or(sign, value));
}

// The format is passed by value: codes that are written could change another's format, so everything
// that follows from it would be computed again for each vector.
template <class T>
void EncodeCastTo(SmallFloat f, const float* x, size_t count, uint8_t* code) {
  const D d;
  const hn::Rebind<T, D> dt;
  const auto encode = [&](V v, size_t i, size_t bytes) HWY_ATTR {
    T some[kMaxLanes];
    hn::StoreU(hn::DemoteTo(dt, hn::BitCast(DI(), EncodeSmallFloats(f, v))), dt, some);
    std::memcpy(code + i * sizeof(T), some, bytes);
  };
  size_t i = 0;
  for (; i + kMaxLanes <= count; i += kMaxLanes) encode(hn::LoadU(d, x + i), i, kMaxLanes * sizeof(T));
  if (i < count) encode(hn::MaskedLoad(hn::FirstN(d, count - i), d, x + i), i, (count - i) * sizeof(T));
}

template <class T>
void DecodeCastFrom(SmallFloat f, const uint8_t* code, size_t count, float* x) {
  const D d;
  const hn::Rebind<T, D> dt;
  const auto decode = [&](size_t i, size_t bytes) HWY_ATTR {
    T some[kMaxLanes] = {};
    std::memcpy(some, code + i * sizeof(T), bytes);
    return DecodeSmallFloats(f, hn::BitCast(DU(), hn::PromoteTo(DI(), hn::LoadU(dt, some))));
  };
  size_t i = 0;
  for (; i + kMaxLanes <= count; i += kMaxLanes) hn::StoreU(decode(i, kMaxLanes * sizeof(T)), d, x + i);
  if (i < count) hn::BlendedStore(decode(i, (count - i) * sizeof(T)), hn::FirstN(d, count - i), d, x + i);
}

// Formats of 8 and 16 bits: runtime/codec/codec_row.cc has no others.
inline void EncodeCast(const SmallFloat& f, const float* x, size_t count, uint8_t* code) {
  f.Bits() == 16 ? EncodeCastTo<uint16_t>(f, x, count, code) : EncodeCastTo<uint8_t>(f, x, count, code);
}

inline void DecodeCast(const SmallFloat& f, const uint8_t* code, size_t count, float* x) {
  f.Bits() == 16 ? DecodeCastFrom<uint16_t>(f, code, count, x) : DecodeCastFrom<uint8_t>(f, code, count, x);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_SMALL_FLOAT_INL_H_
