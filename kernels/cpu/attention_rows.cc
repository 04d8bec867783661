#include "kernels/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "kernels/cpu/fused_math-inl.h"
#include "kernels/cpu/random-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, kRowPad);

constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr int64_t Padded(int64_t count) { return (count + kRowPad - 1) / kRowPad * kRowPad; }

void Scale(float scale, int64_t count, float* scores) {
  const D d;
  const auto factor = hn::Set(d, scale);
  for (int64_t j = 0; j < count; j += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, scores + j), factor), d, scores + j);
}

// score <- cap tanh(score / cap); its derivative is 1 - tanh^2
void Cap(float cap, int64_t count, float* scores, float* slope) {
  const D d;
  const auto one = hn::Set(d, 1.0f), limit = hn::Set(d, cap), inverse = hn::Set(d, 1 / cap);
  for (int64_t j = 0; j < count; j += kLanes) {
    const auto t = HyperbolicTangent(d, hn::Mul(hn::LoadU(d, scores + j), inverse));
    hn::StoreU(hn::Mul(t, limit), d, scores + j);
    if (slope) hn::StoreU(hn::NegMulAdd(t, t, one), d, slope + j);
  }
}

void AddBias(const float* bias, int64_t column, int64_t count, float* scores) {
  if (column == 1) {
    for (int64_t j = 0; j < count; ++j) scores[j] += bias[j];
  } else {
    for (int64_t j = 0; j < count; ++j) scores[j] += bias[j * column];
  }
}

void HideMasked(const uint8_t* mask, int64_t column, int64_t count, float* scores) {
  if (column == 1) {
    for (int64_t j = 0; j < count; ++j) scores[j] = mask[j] ? scores[j] : -kInfinity;
  } else {
    for (int64_t j = 0; j < count; ++j) scores[j] = mask[j * column] ? scores[j] : -kInfinity;
  }
}

float ExponentialsOnTarget(const ScoreRow& row, float* scores, float* slope) {
  const D d;
  const int64_t count = Padded(row.end), all = std::max(count, Padded(row.keys));
  // A row that sees no key may pass a gradient on to all keys (AttentionShape::hidden_gradient), hidden ones too.
  const int64_t sloped = slope && !SeesAKey(row) ? all : count;
  if (row.scale != 1) Scale(row.scale, sloped, scores);
  if (row.softcap > 0) Cap(row.softcap, sloped, scores, slope);
  // The gradients of later keys are 0, and must be 0 when they are multiplied by the slope.
  if (slope) std::fill(slope + sloped, slope + all, 0.0f);
  if (row.bias) AddBias(row.bias, row.bias_column, row.end, scores);
  if (row.mask) HideMasked(row.mask, row.mask_column, row.end, scores);
  std::fill_n(scores, std::min(row.first, row.end), -kInfinity);
  std::fill(scores + row.end, scores + count, -kInfinity);
  const float max = RowMax(d, scores, count);
  std::fill(scores + count, scores + all, 0.0f);
  if (std::isnan(max)) {
    const bool none = std::all_of(scores, scores + row.end, [](float x) { return x == -kInfinity; });
    std::fill_n(scores, row.end, max);
    std::fill(scores + row.end, scores + count, 0.0f);
    return none ? 0 : max;
  }
  return static_cast<float>(1 / ExpAndSum(d, scores, count, max, scores));
}

void DropoutRowOnTarget(const RandomStream& random, float probability, int64_t sample,
                        int64_t elements_per_sample, int64_t first, int64_t keys, float* kept) {
  const uint32_t threshold = DropoutThreshold(probability);
  const float factor = 1 / (1 - probability);
  for (int64_t j = 0; j < keys;) {
    const int64_t element = first + j, in_block = element % kRandom32Block;
    const int64_t count = std::min(keys - j, kRandom32Block - in_block);
    HWY_ALIGN uint32_t words[kRandom32Block];
    RandomRow(random, FirstCall(kRandom32Block, sample, elements_per_sample, element), words);
    for (int64_t i = 0; i < count; ++i) kept[j + i] = words[in_block + i] >= threshold ? factor : 0.0f;
    j += count;
  }
  std::fill(kept + keys, kept + Padded(keys), 0.0f);
}

void MultiplyRowOnTarget(const float* y, int64_t count, float* x) {
  const D d;
  for (int64_t j = 0; j < count; j += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, x + j), hn::LoadU(d, y + j)), d, x + j);
}

void ScaleRowOnTarget(float factor, int64_t count, float* x) {
  for (int64_t j = 0; j < count; ++j) x[j] *= factor;
}

template <bool kDropout>
HWY_INLINE float WeightedSum(const GradientRow& row) {
  const D d;
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < row.keys; j += kLanes) {
    auto dp = hn::LoadU(d, row.d_weights + j);
    if constexpr (kDropout) {
      dp = hn::Mul(dp, hn::LoadU(d, row.kept + j));
      hn::StoreU(dp, d, row.d_weights + j);
    }
    sum = hn::MulAdd(hn::LoadU(d, row.exponentials + j), dp, sum);
  }
  return row.normalizer * hn::GetLane(hn::SumOfLanes(d, sum));
}

void BackwardOnTarget(const GradientRow& row) {
  const D d;
  const float mean = row.kept ? WeightedSum<true>(row) : WeightedSum<false>(row);
  const auto normalizer = hn::Set(d, row.normalizer), shift = hn::Set(d, mean),
             scale = hn::Set(d, row.d_bias || row.slope ? 1.0f : row.scale);
  for (int64_t j = 0; j < row.keys; j += kLanes) {
    const auto p = hn::Mul(hn::LoadU(d, row.exponentials + j), normalizer);
    const auto ds = hn::Mul(hn::Mul(p, scale), hn::Sub(hn::LoadU(d, row.d_weights + j), shift));
    hn::StoreU(ds, d, row.d_weights + j);
    hn::StoreU(row.kept ? hn::Mul(p, hn::LoadU(d, row.kept + j)) : p, d, row.exponentials + j);
  }
  if (row.no_gradient) std::fill_n(row.d_weights, row.keys, 0.0f);
  if (row.d_bias) {
    if (row.d_bias_column == 1) {
      for (int64_t j = 0; j < row.keys; ++j) row.d_bias[j] += row.d_weights[j];
    } else {
      for (int64_t j = 0; j < row.keys; ++j) row.d_bias[j * row.d_bias_column] += row.d_weights[j];
    }
  }
  if (row.slope)
    for (int64_t j = 0; j < row.keys; ++j) row.d_weights[j] *= row.slope[j];
  if (row.d_bias || row.slope) ScaleRowOnTarget(row.scale, row.keys, row.d_weights);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(ExponentialsOnTarget);
HWY_EXPORT(DropoutRowOnTarget);
HWY_EXPORT(MultiplyRowOnTarget);
HWY_EXPORT(ScaleRowOnTarget);
HWY_EXPORT(BackwardOnTarget);

bool SeesAKey(const ScoreRow& row) {
  if (!row.mask) return row.first < row.end;
  for (int64_t j = row.first; j < row.end; ++j)
    if (row.mask[j * row.mask_column] != 0) return true;
  return false;
}

float Exponentials(const ScoreRow& row, float* scores, float* slope) {
  return HWY_DYNAMIC_DISPATCH(ExponentialsOnTarget)(row, scores, slope);
}
void DropoutRow(const RandomStream& random, float probability, int64_t sample, int64_t elements_per_sample,
                int64_t first, int64_t keys, float* kept) {
  HWY_DYNAMIC_DISPATCH(DropoutRowOnTarget)
  (random, probability, sample, elements_per_sample, first, keys, kept);
}
void MultiplyRow(const float* y, int64_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(MultiplyRowOnTarget)(y, count, x);
}
void ScaleRow(float factor, int64_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(ScaleRowOnTarget)(factor, count, x);
}
void Backward(const GradientRow& row) { HWY_DYNAMIC_DISPATCH(BackwardOnTarget)(row); }

}  // namespace act
#endif
