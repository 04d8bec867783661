// Sampling of images at coordinates that are data, and its gradients (kernels/math/grid_taps.h). Weights, and sums over
// pixels, are in double.
#pragma once

#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/grid_sample_parameters.h"
#include "kernels/cuda/source/team.h"

namespace act::cuda {

// What one point mixes, for each of x's axes. Loops over it are unrolled: registers have no places.
template <int kAxes, GridMode::Filter kFilter>
struct PointTaps {
  GridTaps<kFilter> of[kAxes];
};

// The grid's coordinates are in the opposite order of x's axes.
template <int kAxes, GridMode::Filter kFilter>
ACT_DEVICE void LoadTaps(const GridShapeParameters& p, int32_t point, PointTaps<kAxes, kFilter>& taps) {
#pragma unroll
  for (int a = 0; a < kAxes; ++a)
    FindTaps(p.mode, p.extents[a], Load(p.grid + int64_t{point} * kAxes + (kAxes - 1 - a)), taps.of[a]);
}

// The weight of a pixel, or its slopes by each of the coordinates.
template <int kFactors>
struct PixelFactors {
  double at[kFactors];
};

// Calls f(number, pixel, factors) for each pixel that a point mixes, in the reference's order. Without slopes there is
// one factor. The arguments after the taps are for the axes from kAxis on.
template <bool kSlopes, int kAxis = 0, int kAxes, GridMode::Filter kFilter, class F>
ACT_DEVICE void ForEachPixel(const GridShapeParameters& p, const PointTaps<kAxes, kFilter>& taps,
                             int64_t pixel, int number, const PixelFactors<kSlopes ? kAxes : 1>& factors,
                             const F& f) {
  constexpr int kFactors = kSlopes ? kAxes : 1, kCount = GridTaps<kFilter>::kCount;
  if constexpr (kAxis == kAxes) {
    f(number, pixel, factors);
  } else {
#pragma unroll
    for (int t = 0; t < kCount; ++t) {
      const GridTap& tap = taps.of[kAxis].taps[t];
      if (tap.at < 0) continue;
      PixelFactors<kFactors> product;
#pragma unroll
      for (int a = 0; a < kFactors; ++a)
        product.at[a] = factors.at[a] * (kSlopes && a == kAxis ? tap.slope : tap.weight);
      ForEachPixel<kSlopes, kAxis + 1>(p, taps, pixel * p.extents[kAxis] + tap.at, number * kCount + t,
                                       product, f);
    }
  }
}

template <int kCount>
ACT_DEVICE PixelFactors<kCount> UnitFactors() {
  PixelFactors<kCount> factors;
#pragma unroll
  for (int a = 0; a < kCount; ++a) factors.at[a] = 1;
  return factors;
}

ACT_DEVICE int64_t SampleOf(const GridShapeParameters& p, int32_t point) { return Quotient(p.points, point); }

// A thread makes kChannels channels of a point.
template <int kAxes, GridMode::Filter kFilter, int kChannels>
ACT_DEVICE void GridSample(const GridSampleParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t point = i;
  const int32_t channel = Split(p.groups, point) * kChannels;
  PointTaps<kAxes, kFilter> taps;
  LoadTaps(p.shape, point, taps);
  double sums[kChannels] = {};
  ForEachPixel<false>(p.shape, taps, SampleOf(p.shape, point), 0, UnitFactors<1>(),
                      [&](int, int64_t pixel, const PixelFactors<1>& weight) {
                        Floats<kChannels> x;
                        LoadFloats(p.x + pixel * p.shape.channels + channel, x);
                        for (int c = 0; c < kChannels; ++c) sums[c] += weight.at[0] * x.at[c];
                      });
  Floats<kChannels> y;
  for (int c = 0; c < kChannels; ++c) y.at[c] = static_cast<float>(sums[c]);
  StoreFloats(p.y + int64_t{point} * p.shape.channels + channel, y);
}

// A team for each point, whose lanes share its channels.
template <int kAxes, GridMode::Filter kFilter, int kTeam>
ACT_DEVICE void GridGradGrid(const GridGradGridParameters& p) {
  const int32_t lane = threadIdx.x % kTeam, team = (blockIdx.x * blockDim.x + threadIdx.x) / kTeam;
  const bool inside = team < p.count;
  const int32_t point = inside ? team : 0, channels = inside ? p.shape.channels : 0;
  PointTaps<kAxes, kFilter> taps;
  LoadTaps(p.shape, point, taps);
  const float* dy = p.dy + int64_t{point} * p.shape.channels;
  PixelFactors<kAxes> sums = {};
  ForEachPixel<true>(p.shape, taps, SampleOf(p.shape, point), 0, UnitFactors<kAxes>(),
                     [&](int, int64_t pixel, const PixelFactors<kAxes>& slopes) {
                       for (int32_t c = lane; c < channels; c += kTeam) {
                         const float x = Load(p.x + pixel * p.shape.channels + c), gradient = Load(dy + c);
                         for (int a = 0; a < kAxes; ++a) sums.at[a] += slopes.at[a] * x * gradient;
                       }
                     });
#pragma unroll
  for (int a = 0; a < kAxes; ++a) {
    const double sum = SumOverTeam<kTeam>(sums.at[a]);
    if (lane == 0 && inside)
      Store(p.dgrid + int64_t{point} * kAxes + (kAxes - 1 - a), static_cast<float>(sum));
  }
}

// ---- The gradient of x: parts are found, sorted by pixel (radix_sort.h), which keeps those of a pixel in order, and
// added as the reference adds them.

template <int kAxes, GridMode::Filter kFilter>
ACT_DEVICE void FindParts(const GridGradInputParameters& p) {
  constexpr int kCount = GridTaps<kFilter>::kCount;
  constexpr int32_t kParts = kAxes == 1 ? kCount : kAxes == 2 ? kCount * kCount : kCount * kCount * kCount;
  const int32_t point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= p.points) return;
  const int32_t first = point * kParts;
  for (int32_t i = 0; i < kParts; ++i) {
    Store(p.pixels + first + i, p.no_pixel);
    Store(p.numbers + first + i, static_cast<uint32_t>(first + i));
  }
  PointTaps<kAxes, kFilter> taps;
  LoadTaps(p.shape, point, taps);
  ForEachPixel<false>(p.shape, taps, SampleOf(p.shape, point), 0, UnitFactors<1>(),
                      [&](int number, int64_t pixel, const PixelFactors<1>& weight) {
                        Store(p.pixels + first + number, static_cast<uint32_t>(pixel));
                        Store(p.weights + first + number, weight.at[0]);
                      });
}

// The thread of a pixel's first part adds up kChannels channels of all of them. kParts: of a point.
template <int kParts, int kChannels>
ACT_DEVICE void AddParts(const GridGradInputParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t j = i;
  const int32_t channel = Split(p.groups, j) * kChannels;
  const uint32_t pixel = Load(p.pixels + j);
  if (pixel == p.no_pixel || (j > 0 && Load(p.pixels + j - 1) == pixel)) return;
  Floats<kChannels> sum = {};
  for (; j < p.parts && Load(p.pixels + j) == pixel; ++j) {
    const uint32_t number = Load(p.numbers + j);
    const double weight = Load(p.weights + number);
    Floats<kChannels> dy;
    LoadFloats(p.dy + int64_t{number / kParts} * p.shape.channels + channel, dy);
    for (int c = 0; c < kChannels; ++c) sum.at[c] += static_cast<float>(weight * dy.at[c]);
  }
  StoreFloats(p.dx + int64_t{pixel} * p.shape.channels + channel, sum);
}

}  // namespace act::cuda
