// Vectorised elementary functions, to a few units in the last place of float32 and defined everywhere:
// Highway's where it has them, with the ends of the range and NaN put right. Included once per instruction
// set.

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

// e^x. Infinity above 88.7, 0 below -104.
template <class D, class V>
HWY_INLINE V Exponential(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  return KeepNaN(d, x, hn::Exp(d, hn::Min(x, hn::Set(d, 100.0f))));
}

// ln x. -infinity at 0, NaN below.
template <class D, class V>
HWY_INLINE V Logarithm(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V inf = hn::Inf(d);
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), KeepNaN(d, x, y));
}

template <class D, class V>
HWY_INLINE V HyperbolicTangent(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  // tanh(10) rounds to 1.
  const V bound = hn::Set(d, 10.0f);
  return KeepNaN(d, x, hn::Tanh(d, hn::Min(hn::Max(x, hn::Neg(bound)), bound)));
}

template <class D, class V>
HWY_INLINE V Polynomial(D d, V x, const float* coefficients, int degree) {
  namespace hn = hwy::HWY_NAMESPACE;
  V y = hn::Set(d, coefficients[degree]);
  for (int i = degree - 1; i >= 0; --i) y = hn::MulAdd(y, x, hn::Set(d, coefficients[i]));
  return y;
}

// Below 1: x + x p(x^2). From there to 4, where erf rounds to 1: 1 - e^-q(|x|). p and q are minimax fits of
// erf(x) / x - 1 (error 1.2e-9) and -ln(erfc(x)) (2e-11 of erf); with float32 rounding the relative error is
// below 1e-7.
template <class D, class V>
HWY_INLINE V ErrorFunction(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  static constexpr float kNear[] = {1.283791661e-01f, -3.761262596e-01f, 1.128360033e-01f, -2.685444430e-02f,
                                    5.189535208e-03f, -8.020841051e-04f, 7.889119297e-05f};
  static constexpr float kFar[] = {-1.913088636e-04f, 1.129594803e+00f,  6.331845522e-01f,
                                   1.084613577e-01f,  -2.523999289e-02f, 4.219341557e-03f,
                                   -4.455549060e-04f, 2.236142791e-05f,  -4.626150840e-08f};
  const V magnitude = hn::Abs(x);
  const V near = hn::MulAdd(Polynomial(d, hn::Mul(x, x), kNear, 6), x, x);
  const V exponent = Polynomial(d, hn::Min(magnitude, hn::Set(d, 4.0f)), kFar, 8);
  const V far = hn::Sub(hn::Set(d, 1.0f), hn::Exp(d, hn::Neg(exponent)));
  return KeepNaN(d, x, hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 1.0f)), near, hn::CopySign(far, x)));
}

}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_FUSED_MATH_INL_H_
