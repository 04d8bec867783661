// What the statistics of a batch give for one channel: what BatchNormStats stores, from moments and
// a range. Moments of parts of the batch merge into those of the whole.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"

namespace act {

// Of the x of one channel. An empty batch has mean 0 and m2 0.
struct BatchMoments {
  int64_t rows = 0;
  double mean = 0, m2 = 0;  // m2: the sum of squared deviations from the mean
  float low = 0, high = 0;  // the range of x
};

// Of rows in `a` or `b` (Chan, Golub and LeVeque 1979). Nothing is lost where the mean is far from 0.
ACT_HOST_DEVICE inline BatchMoments Merge(const BatchMoments& a, const BatchMoments& b) {
  if (a.rows == 0) return b;
  if (b.rows == 0) return a;
  const double share = static_cast<double>(b.rows) / static_cast<double>(a.rows + b.rows);
  const double delta = b.mean - a.mean;
  return {a.rows + b.rows, a.mean + delta * share,
          a.m2 + b.m2 + delta * delta * static_cast<double>(a.rows) * share, b.low < a.low ? b.low : a.low,
          b.high > a.high ? b.high : a.high};
}

// How a plan's tensors hold the moments of a channel: rows, mean, m2, low, high, all in double.
constexpr int kBatchMomentNumbers = 5;
ACT_HOST_DEVICE inline BatchMoments LoadMoments(const double* at) {
  return {static_cast<int64_t>(at[0]), at[1], at[2], static_cast<float>(at[3]), static_cast<float>(at[4])};
}
ACT_HOST_DEVICE inline void StoreMoments(double* at, const BatchMoments& b) {
  at[0] = static_cast<double>(b.rows);
  at[1] = b.mean;
  at[2] = b.m2;
  at[3] = b.low;
  at[4] = b.high;
}

ACT_HOST_DEVICE inline double BatchVariance(const BatchMoments& b) {
  return b.rows > 0 ? b.m2 / static_cast<double>(b.rows) : 0;
}

ACT_HOST_DEVICE inline double BatchDeviation(const BatchMoments& b, double epsilon) {
  return sqrt(BatchVariance(b) + epsilon);
}

// The largest |x - mean|.
ACT_HOST_DEVICE inline double FurthestFromMean(const BatchMoments& b) {
  if (b.rows == 0) return 0;
  const double above = b.high - b.mean, below = b.mean - b.low;
  return above < below ? below : above;
}

// The variance that running_var follows: n / (n - 1) of the batch's, unless it is to be that of the
// `population`.
ACT_HOST_DEVICE inline double RunningVariance(const BatchMoments& b, bool population) {
  return population ? BatchVariance(b) : b.m2 / static_cast<double>(b.rows - 1);
}
// One value has no such variance, and none at all has no statistics: running_var then stays as it is.
ACT_HOST_DEVICE inline bool HasRunningVariance(const BatchMoments& b, bool population) {
  return b.rows > (population ? 0 : 1);
}

// A running statistic after this batch, whose own is `value`.
ACT_HOST_DEVICE inline float MovedTowards(float running, double value, double momentum) {
  return static_cast<float>((1 - momentum) * running + momentum * value);
}

}  // namespace act
