#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cc"
#include "kernels/cpu/highway_targets.h"
// Highway compiles the rest once for each target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/cpu/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace act {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double SoftmaxRowOnTarget(const float* logits, int64_t count, float* prob) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float max = logits[0];
  bool defined = true;  // no NaN, no +infinity; said apart, for Exp(NaN) is 0
  for (int64_t c = 0; c < count; ++c) {
    max = logits[c] > max ? logits[c] : max;
    defined &= logits[c] < std::numeric_limits<float>::infinity();
  }
  const float poison = defined && std::isfinite(max) ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  const auto shift = hn::Set(d, max);
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes)
    hn::StoreU(hn::Exp(d, hn::Sub(hn::LoadU(d, logits + c), shift)), d, prob + c);
  for (; c < count; ++c) prob[c] = std::exp(logits[c] - max);
  double sum = 0;
  for (c = 0; c < count; ++c) sum += prob[c];
  const auto scale = static_cast<float>(1 / sum) + poison;
  for (c = 0; c < count; ++c) prob[c] *= scale;
  return std::log(sum) + max + poison;
}

}  // namespace HWY_NAMESPACE
}  // namespace act
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(SoftmaxRowOnTarget);

double SoftmaxRow(const float* logits, int64_t count, float* prob) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxRowOnTarget)(logits, count, prob);
}

}  // namespace act
#endif
