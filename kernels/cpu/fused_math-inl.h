// Vectorized elementary functions, accurate to a few units in the last place of float32 and defined
// everywhere. Included once per instruction set. Coefficients are minimax fits made for these
// functions. The stated errors are those of float32 arithmetic, found over millions of points.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_FUSED_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_FUSED_MATH_INL_H_
#undef ACT_FUSED_MATH_INL_H_
#else
#define ACT_FUSED_MATH_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V KeepNaN(D, V x, V y) {
  return hwy::HWY_NAMESPACE::IfThenElse(hwy::HWY_NAMESPACE::IsNaN(x), x, y);
}

// x clamped to [low, high]. A NaN stays NaN: if an operand is NaN, x86's min and max return the
// second.
template <class D, class V>
HWY_INLINE V Clamp(D d, float low, V x, float high) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V y = hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return y;
#else
  return KeepNaN(d, x, y);
#endif
}

template <size_t kCount, class D, class V>
HWY_INLINE V Polynomial(D d, V x, const float (&coefficients)[kCount]) {
  namespace hn = hwy::HWY_NAMESPACE;
  V y = hn::Set(d, coefficients[kCount - 1]);
  for (size_t i = kCount - 1; i-- > 0;) y = hn::MulAdd(y, x, hn::Set(d, coefficients[i]));
  return y;
}

// y * 2^n for an integer n of magnitude at most 150: infinity above the range, denormal and 0
// below.
template <class D, class V>
HWY_INLINE V TimesPowerOfTwo(D d, V y, V n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hwy::HWY_NAMESPACE::MaxLanes(D()) == 16)
    return V{_mm512_maskz_scalef_ps(0xFFFF, y.raw, n.raw)};
#endif
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const auto power = [&](auto k)
                         HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(di, 127)))); };
  // In two steps, because 2^n itself may lie outside the range.
  const auto whole = hn::ConvertTo(di, n), half = hn::ShiftRight<1>(whole);
  return hn::Mul(hn::Mul(y, power(half)), power(hn::Sub(whole, half)));
}

// e^x within 1 unit; infinity above 88.7, 0 below -104. x = n ln 2 + r. ln 2 is split into two
// parts, and the product of the first part and n is exact.
template <class D, class V>
HWY_INLINE V Exponential(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  static constexpr float kPolynomial[] = {
      1.0f, 1.0f, 4.999999404e-01f, 1.666652113e-01f, 4.166838899e-02f, 8.368745446e-03f, 1.381453942e-03f};
  const V bounded = Clamp(d, -104.0f, x, 89.0f);
  const V round = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it removes the fraction
  const V n = hn::Sub(hn::MulAdd(bounded, hn::Set(d, 1.44269504f), round), round);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  return TimesPowerOfTwo(d, Polynomial(d, r, kPolynomial), n);
}

// 1 / (1 + e^-x) within 2 units, from the exponential of -|x|, which does not overflow.
template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f), e = Exponential(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

// ln x, by Highway. -infinity at 0, NaN below.
template <class D, class V>
HWY_INLINE V Logarithm(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V inf = hn::Inf(d);
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), KeepNaN(d, x, y));
}

// x p(x^2) / q(x^2) within 3 units; 1 from 9 on.
template <class D, class V>
HWY_INLINE V HyperbolicTangent(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  static constexpr float kAbove[] = {9.913619161e-01f, 1.356174797e-01f, 3.834913718e-03f,
                                     2.776554902e-05f, 3.032087648e-08f, -1.209808729e-11f};
  static constexpr float kBelow[] = {9.913619161e-01f, 4.660714269e-01f, 2.701049112e-02f, 3.904610639e-04f,
                                     1.276247758e-06f};
  const V bounded = Clamp(d, -9.02f, x, 9.02f), square = hn::Mul(bounded, bounded);
  const V quotient = hn::Div(Polynomial(d, square, kAbove), Polynomial(d, square, kBelow));
  return Clamp(d, -1.0f, hn::Mul(bounded, quotient), 1.0f);
}

// x p(x^2) / q(x^2) within 3 units; 1 from 3.92 on.
template <class D, class V>
HWY_INLINE V ErrorFunction(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  static constexpr float kAbove[] = {8.032988906e-01f, 1.355308443e-01f, 3.754985705e-02f,
                                     2.680007834e-03f, 2.028146118e-04f, 1.459922601e-06f};
  static constexpr float kBelow[] = {7.119051218e-01f, 3.574123681e-01f, 8.122682571e-02f,
                                     1.065514237e-02f, 8.274726570e-04f, 2.712264904e-05f};
  const V bounded = Clamp(d, -3.9192f, x, 3.9192f), square = hn::Mul(bounded, bounded);
  const V above = hn::Mul(bounded, Polynomial(d, square, kAbove));
  return Clamp(d, -1.0f, hn::Div(above, Polynomial(d, square, kBelow)), 1.0f);
}

}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_FUSED_MATH_INL_H_
