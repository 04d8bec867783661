// Passes over a row of scores. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_SOFTMAX_INL_H_
#undef ACT_SOFTMAX_INL_H_
#else
#define ACT_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/fused_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {

// Floats that are added in float32, before their sum is added in double.
inline constexpr int64_t kBlock = 1024;

// The largest of the row. NaN if one is NaN or +infinity, or if all are -infinity.
template <class D>
HWY_INLINE float RowMax(D d, const float* x, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto max = hn::Set(d, -kInfinity);
  auto finite = hn::Eq(max, max);  // no NaN, no +infinity so far
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto v = hn::LoadU(d, x + c);
    max = hn::Max(max, v);
    finite = hn::And(finite, hn::Lt(v, hn::Set(d, kInfinity)));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, max));
  bool defined = hn::AllTrue(d, finite);
  for (; c < count; ++c) {
    result = x[c] > result ? x[c] : result;
    defined = defined && x[c] < kInfinity;
  }
  return defined && result > -kInfinity ? result : std::numeric_limits<float>::quiet_NaN();
}

// prob = exp(x - max); returns the sum.
template <class D>
HWY_INLINE double ExpAndSum(D d, const float* x, int64_t count, float max, float* prob) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, max);
  double total = 0;
  int64_t c = 0;
  while (c + lanes <= count) {
    const int64_t end = std::min(c + kBlock, count);
    auto sum = hn::Zero(d);
    for (; c + lanes <= end; c += lanes) {
      const auto e = Exponential(d, hn::Sub(hn::LoadU(d, x + c), shift));
      hn::StoreU(e, d, prob + c);
      sum = hn::Add(sum, e);
    }
    total += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  for (; c < count; ++c) {
    prob[c] = std::exp(x[c] - max);
    total += prob[c];
  }
  return total;
}

}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_SOFTMAX_INL_H_
