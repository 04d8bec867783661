#pragma once

#include "kernels/cuda/source/divisor.h"
#include "kernels/math/grid_taps.h"

namespace act::cuda {

inline constexpr int kMostGridAxes = 3, kGridThreads = 256;

// x [batch, extents.., channels], grid [batch, points, axes] -> y [batch, points, channels].
struct GridShapeParameters {
  GridMode mode;
  int64_t extents[kMostGridAxes] = {};
  const float* grid = nullptr;
  Divisor points;  // of a sample
  int32_t channels = 0;
};

struct GridSampleParameters {
  GridShapeParameters shape;
  const float* x = nullptr;
  float* y = nullptr;
  Divisor groups;     // of channels that a thread takes
  int32_t items = 0;  // points of all samples times groups
};

struct GridGradGridParameters {
  GridShapeParameters shape;
  const float *dy = nullptr, *x = nullptr;
  float* dgrid = nullptr;
  int32_t count = 0;  // points of all samples
};

// Of some samples at a time: each point adds to the pixels that it mixes. Such a part is a pair of a pixel and a
// number, point * parts of a point + part, which are sorted by pixel.
struct GridGradInputParameters {
  GridShapeParameters shape;  // grid: of the first sample
  const float* dy = nullptr;
  float* dx = nullptr;
  uint32_t *pixels = nullptr, *numbers = nullptr;
  double* weights = nullptr;  // by number
  uint32_t no_pixel = 0;      // of a part that is outside: above all pixels
  int32_t points = 0;         // of these samples
  int32_t parts = 0;          // of these points
  Divisor groups;             // of channels that a thread takes
  int32_t items = 0;          // parts * groups
};

}  // namespace act::cuda
