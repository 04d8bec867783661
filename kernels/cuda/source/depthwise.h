// Convolutions in which each channel has a window of its own. T is the type of what is multiplied, W that of
// the weights in memory, which are rounded to T, R that of the result.
#pragma once

#include "kernels/cuda/source/depthwise_parameters.h"
#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/window.h"

namespace act::cuda {

template <class T, class W, int kCount>
ACT_DEVICE void LoadWeights(const DepthwiseParameters& p, int32_t channel, int32_t tap, Floats<kCount>& w) {
  const W* from = static_cast<const W*>(p.w) + p.first_tap + channel * p.w_channel + tap * p.w_tap;
  if (p.w_channel == 1)
    LoadFloats(from, w);
  else
    for (int j = 0; j < kCount; ++j) w.at[j] = LoadFloat(from + j * p.w_channel);
  for (int j = 0; j < kCount; ++j) w.at[j] = RoundedTo<T>(w.at[j]);
}

// A thread makes kCount channels of kOutputs neighbours in a row of y. It walks a window's row kTaps taps at
// a time, and loads what these read once. More than one tap, or output: no dilation along the row, and a
// stride of kStride.
template <class T, class W, class R, int kCount, int kOutputs, int kTaps, int kStride>
ACT_DEVICE void Depthwise(const DepthwiseParameters& p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto rest = static_cast<int32_t>(thread);
  const WindowAxis &a = p.window.axes[0], &b = p.window.axes[1], &c = p.window.axes[2];
  const int32_t channel = Split(p.groups, rest) * kCount, first = Split(p.runs, rest) * kOutputs;
  Pixel o;
  o.at[1] = Split(b.out, rest);
  o.at[0] = Split(a.out, rest);
  o.sample = rest;
  const Span sa = SpanOf(a, o.at[0]), sb = SpanOf(b, o.at[1]);
  const int32_t start = first * c.stride.by - c.pad;
  Floats<kCount> sum[kOutputs] = {};
  for (int32_t i = sa.first; i < sa.end; ++i)
    for (int32_t j = sb.first; j < sb.end; ++j) {
      const int64_t plane = int64_t{o.sample} * a.in.by + sa.start + i * a.dilation.by;
      const int64_t row = (plane * b.in.by + sb.start + j * b.dilation.by) * c.in.by;
      const T* x_row = static_cast<const T*>(p.from) + row * p.channels + channel;
#pragma unroll 1
      for (int32_t k = 0; k < c.kernel.by; k += kTaps) {
        Floats<kCount> x[(kOutputs - 1) * kStride + kTaps] = {};
        for (int t = 0; t < (kOutputs - 1) * kStride + kTaps; ++t) {
          const int32_t at = start + k * c.dilation.by + t;
          if (at >= 0 && at < c.in.by) LoadFloats(x_row + int64_t{at} * p.channels, x[t]);
        }
        for (int t = 0; t < kTaps; ++t) {
          Floats<kCount> w;
          LoadWeights<T, W>(p, channel, (i * b.kernel.by + j) * c.kernel.by + k + t, w);
          for (int n = 0; n < kOutputs; ++n)
            for (int e = 0; e < kCount; ++e)
              sum[n].at[e] = MulAdd(x[n * kStride + t].at[e], w.at[e], sum[n].at[e]);
        }
      }
    }
  Floats<kCount> bias = {};
  if (p.bias) LoadFloats(p.bias + channel, bias);
  for (int n = 0; n < kOutputs; ++n) {
    if (first + n >= c.out.by) break;
    for (int e = 0; e < kCount; ++e) sum[n].at[e] += bias.at[e];
    o.at[2] = first + n;
    StoreFloats(static_cast<R*>(p.to) + IndexOf<&WindowAxis::out>(p.window, o) * p.channels + channel,
                sum[n]);
  }
}

// The gradient of the input where there are strides: a thread gathers kCount channels of one pixel. (Without
// strides it is a convolution with the window turned around.)
template <class T, class W, class R, int kCount>
ACT_DEVICE void DepthwiseGradInput(const DepthwiseParameters& p) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return;
  auto pixel = static_cast<int32_t>(thread);
  const int32_t channel = Split(p.groups, pixel) * kCount;
  Floats<kCount> sum = {};
  ForEachReader(p.window, PixelOf<&WindowAxis::in>(p.window, pixel), [&](const Pixel& o, int32_t tap) {
    Floats<kCount> dy, w;
    LoadFloats(static_cast<const T*>(p.from) + IndexOf<&WindowAxis::out>(p.window, o) * p.channels + channel,
               dy);
    LoadWeights<T, W>(p, channel, tap, w);
    for (int e = 0; e < kCount; ++e) sum.at[e] = MulAdd(dy.at[e], w.at[e], sum.at[e]);
  });
  StoreFloats(static_cast<R*>(p.to) + int64_t{pixel} * p.channels + channel, sum);
}

// A block sums over a part of the rows of dy, for 32 channels and kRows by kColumns taps. Each of its 8 warps
// takes every eighth pixel of a row; their sums are added in order.
template <class T, int kRows, int kColumns>
ACT_DEVICE void DepthwiseGradWeight(const DepthwiseGradWeightParameters& p) {
  ACT_SHARED(float, warps, 256);
  const WindowAxis &a = p.window.axes[0], &b = p.window.axes[1], &c = p.window.axes[2];
  auto block = static_cast<int32_t>(blockIdx.x);
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32, warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t channel = Split(p.channel_blocks, block) * 32 + lane;
  const int32_t k2 = Split(p.tap_columns, block) * kColumns, k1 = Split(p.tap_rows, block) * kRows;
  const int32_t k0 = Split(a.kernel, block), first = block * p.part_rows;
  const int32_t last = p.rows - first < p.part_rows ? p.rows : first + p.part_rows;
  float sum[kRows][kColumns] = {};
  for (int32_t row = first; row < last && channel < p.channels; ++row) {
    int32_t rest = row;
    const int32_t o1 = Split(b.out, rest), o0 = Split(a.out, rest);
    const int32_t i0 = o0 * a.stride.by - a.pad + k0 * a.dilation.by,
                  i1 = o1 * b.stride.by - b.pad + k1 * b.dilation.by;
    if (i0 < 0 || i0 >= a.in.by) continue;
    const T* dy = static_cast<const T*>(p.dy) + int64_t{row} * c.out.by * p.channels + channel;
    const T* x = static_cast<const T*>(p.x) +
                 ((int64_t{rest} * a.in.by + i0) * b.in.by + i1) * c.in.by * p.channels + channel;
    for (int32_t o2 = warp; o2 < c.out.by; o2 += 8) {
      const float d = LoadFloat(dy + int64_t{o2} * p.channels);
      const int32_t i2 = o2 * c.stride.by - c.pad + k2 * c.dilation.by;
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) {
          const int32_t at1 = i * b.dilation.by, at2 = i2 + j * c.dilation.by;
          if (i1 + at1 < 0 || i1 + at1 >= b.in.by || at2 < 0 || at2 >= c.in.by) continue;
          sum[i][j] = MulAdd(d, LoadFloat(x + (int64_t{at1} * c.in.by + at2) * p.channels), sum[i][j]);
        }
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      SyncThreads();
      warps[threadIdx.x] = sum[i][j];
      SyncThreads();
      if (warp > 0 || channel >= p.channels || k1 + i >= b.kernel.by || k2 + j >= c.kernel.by) continue;
      float total = 0;
      for (int32_t n = 0; n < 8; ++n) total += warps[n * 32 + lane];
      const int64_t element = int64_t{block} * p.channels + channel;  // [part, channel]
      Store(p.to + ((element * a.kernel.by + k0) * b.kernel.by + k1 + i) * c.kernel.by + k2 + j, total);
    }
}

}  // namespace act::cuda
