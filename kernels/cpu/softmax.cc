#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cc"
#include "kernels/cpu/highway_targets.h"
// Highway compiles the rest once for each target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/softmax-inl.h"
#include "kernels/cpu/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace act {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double SoftmaxRowOnTarget(const float* logits, int64_t count, float* prob) {
  const hn::ScalableTag<float> d;
  const float max = RowMax(d, logits, count);
  if (std::isnan(max)) {
    std::fill_n(prob, count, max);
    return max;
  }
  const double sum = ExpAndSum(d, logits, count, max, prob);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = static_cast<float>(1 / sum);
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, prob + c), hn::Set(d, scale)), d, prob + c);
  for (; c < count; ++c) prob[c] *= scale;
  return std::log(sum) + max;
}

void SoftmaxGradRowOnTarget(const float* dy, const float* y, int64_t count, float* dx) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  int64_t c = 0;
  while (c + lanes <= count) {
    const int64_t end = std::min(c + kBlock, count);
    auto sum = hn::Zero(d);
    for (; c + lanes <= end; c += lanes) sum = hn::MulAdd(hn::LoadU(d, dy + c), hn::LoadU(d, y + c), sum);
    total += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  for (; c < count; ++c) total += dy[c] * y[c];
  const auto shift = static_cast<float>(total);
  for (c = 0; c + lanes <= count; c += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, y + c), hn::Sub(hn::LoadU(d, dy + c), hn::Set(d, shift))), d, dx + c);
  for (; c < count; ++c) dx[c] = y[c] * (dy[c] - shift);
}

}  // namespace HWY_NAMESPACE
}  // namespace act
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(SoftmaxRowOnTarget);

HWY_EXPORT(SoftmaxGradRowOnTarget);

void SoftmaxGradRow(const float* dy, const float* y, int64_t count, float* dx) {
  HWY_DYNAMIC_DISPATCH(SoftmaxGradRowOnTarget)(dy, y, count, dx);
}

double SoftmaxRow(const float* logits, int64_t count, float* prob) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxRowOnTarget)(logits, count, prob);
}

}  // namespace act
#endif
