// Moments of the channels of rows [rows, C], for batch statistics: vectorised loops for the machine's
// best instruction set.
#pragma once

#include <cstdint>

#include "kernels/math/convert.h"

namespace act {

// center[c] = mean of the rows of x, in float.
void MeanOfRows(const float* x, int64_t rows, int64_t channels, float* center);
void MeanOfRows(const BFloat16* x, int64_t rows, int64_t channels, float* center);

// Statistics of rows so far, channel by channel.
struct RowMoments {
  int64_t rows = 0;
  double *mean = nullptr, *m2 = nullptr;  // m2: the sum of squared deviations from the mean
  float *low = nullptr, *high = nullptr;  // the range; null: it is not wanted
};

// Merges the rows of x into the moments (Chan, Golub and LeVeque 1979), and prefetches as many rows
// after them. Float is enough for deviations from `center`, and their sum corrects for its distance
// from the rows' mean. So it may be any number that is not much further from that mean than the rows
// are: their mean in float, or the mean of rows of which there were as many before.
void MergeRows(const float* x, int64_t rows, int64_t channels, const float* center, RowMoments& moments);
void MergeRows(const BFloat16* x, int64_t rows, int64_t channels, const float* center, RowMoments& moments);

}  // namespace act
