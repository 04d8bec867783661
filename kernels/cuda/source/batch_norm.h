// Mean, deviation and range of each channel, at once or by way of moments of some rows at a time.
//
// Moments are of x - x[row 0], in double, which loses nothing: where the mean is a million deviations away
// from 0, the differences are exact, and where row 0 is a thousand deviations from the mean, the sum of
// squares still has ten digits left. So all parts of a channel add up without corrections.
#pragma once

#include "kernels/cuda/source/batch_norm_parameters.h"
#include "kernels/cuda/source/column_reduction.h"
#include "kernels/math/batch_statistics.h"

namespace act::cuda {

ACT_DEVICE void FollowStatistic(const BatchNormParameters& p, float* running, int64_t channel, double value) {
  if (running) Store(running + channel, MovedTowards(Load(running + channel), value, p.momentum));
}

ACT_DEVICE void StoreStatistics(const BatchNormParameters& p, int64_t channel, const BatchMoments& b) {
  const double deviation = BatchDeviation(b, p.epsilon);
  Store(p.mean + channel, static_cast<float>(b.mean));
  Store(p.rstd + channel, static_cast<float>(1 / deviation));
  if (p.largest) Store(p.largest + channel, static_cast<float>(FurthestFromMean(b) / deviation));
  if (b.rows == 0 || (p.updates_done > 0 && Load(&p.step->step) < p.updates_done)) return;
  FollowStatistic(p, p.running_mean, channel, b.mean);
  if (HasRunningVariance(b, p.population != 0))
    FollowStatistic(p, p.running_var, channel, RunningVariance(b, p.population != 0));
}

ACT_DEVICE BatchMoments MomentsAt(const BatchNormParameters& p, int64_t channel) {
  double numbers[kBatchMomentNumbers];
  for (int i = 0; i < kBatchMomentNumbers; ++i)
    numbers[i] = Load(p.moments + channel * kBatchMomentNumbers + i);
  return LoadMoments(numbers);
}

ACT_DEVICE void AddMoments(const BatchNormParameters& p, int64_t channel, const BatchMoments& b) {
  double numbers[kBatchMomentNumbers];
  StoreMoments(numbers, p.goes_on ? Merge(MomentsAt(p, channel), b) : b);
  for (int i = 0; i < kBatchMomentNumbers; ++i)
    Store(p.moments + channel * kBatchMomentNumbers + i, numbers[i]);
}

template <class T>
struct MomentsOp {
  struct Acc {
    double sum, square;
    float low, high;
  };
  static constexpr int kAtOnce = 8;
  const BatchNormParameters& p;

  ACT_DEVICE Acc Start() const { return {0, 0, kInfinity, -kInfinity}; }
  // A row 0 that is not finite would leave nothing of the rest.
  ACT_DEVICE float Shift(int64_t channel) const {
    const float first = LoadFloat(static_cast<const T*>(p.columns.x) + channel);
    return fabsf(first) < kInfinity ? first : 0;
  }
  ACT_DEVICE void Add(Acc& acc, float x, float shift) const {
    const double d = static_cast<double>(x) - shift;
    acc.sum += d;
    acc.square = MulAdd(d, d, acc.square);
    acc.low = x < acc.low ? x : acc.low;
    acc.high = x > acc.high ? x : acc.high;
  }
  ACT_DEVICE void Merge(Acc& acc, const Acc& later) const {
    acc.sum += later.sum;
    acc.square += later.square;
    acc.low = later.low < acc.low ? later.low : acc.low;
    acc.high = later.high > acc.high ? later.high : acc.high;
  }
  ACT_DEVICE void StorePart(int32_t part, int64_t channel, const Acc& acc) const {
    const int64_t at = int64_t{part} * p.columns.length + channel;
    Store(p.sums + at, acc.sum);
    Store(p.squares + at, acc.square);
    Store(p.lows + at, acc.low);
    Store(p.highs + at, acc.high);
  }
  ACT_DEVICE Acc LoadPart(int32_t part, int64_t channel) const {
    const int64_t at = int64_t{part} * p.columns.length + channel;
    return {Load(p.sums + at), Load(p.squares + at), Load(p.lows + at), Load(p.highs + at)};
  }
  ACT_DEVICE void Finish(int64_t channel, const Acc& acc) const {
    BatchMoments b{.rows = p.columns.rows, .low = acc.low, .high = acc.high};
    if (b.rows > 0) {
      const double missed = acc.sum / static_cast<double>(b.rows);
      const double m2 = acc.square - acc.sum * missed;
      b.mean = Shift(channel) + missed;
      b.m2 = m2 < 0 ? 0 : m2;
    }
    if (p.moments)
      AddMoments(p, channel, b);
    else
      StoreStatistics(p, channel, b);
  }
};

template <class T, int kColumnLanes, int kVector>
ACT_DEVICE void SumBatch(const BatchNormParameters& p) {
  ReduceColumns<T, kColumnLanes, kVector>(MomentsOp<T>{p}, p.columns);
}

// A thread for each channel.
ACT_DEVICE void FinishMoments(const BatchNormParameters& p) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel < p.columns.length) StoreStatistics(p, channel, MomentsAt(p, channel));
}

template <class T>
ACT_DEVICE void MergeBatch(const BatchNormParameters& p) {
  MergeParts(MomentsOp<T>{p}, p.columns.parts, p.columns.length);
}

}  // namespace act::cuda
