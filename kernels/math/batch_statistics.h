// What the statistics of a batch give for one channel: what BatchNormStats stores, from moments and
// a range.
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
  return b.rows > 1 && !population ? b.m2 / static_cast<double>(b.rows - 1) : BatchVariance(b);
}

// A running statistic after this batch, whose own is `value`.
ACT_HOST_DEVICE inline float MovedTowards(float running, double value, double momentum) {
  return static_cast<float>((1 - momentum) * running + momentum * value);
}

}  // namespace act
