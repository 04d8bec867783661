// A window that slides over channels-last activations (kernels/site/window.h), as kernels see it.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/cuda/source/window_parameters.h"

namespace act::cuda {

// How many positions of a window that starts at coordinate `start` lie before coordinate `end`.
ACT_DEVICE int32_t TapsBefore(const WindowAxis& a, int32_t start, int32_t end) {
  const int32_t taps = end > start ? Quotient(a.dilation, end - start + a.dilation.by - 1) : 0;
  return taps < a.kernel.by ? taps : a.kernel.by;
}

// The window of output o along an axis: where it starts, and its positions first..end-1 that lie inside the
// input.
struct Span {
  int32_t start = 0, first = 0, end = 0;
};
ACT_DEVICE Span SpanOf(const WindowAxis& a, int32_t o) {
  const int32_t start = o * a.stride.by - a.pad;
  return {start, TapsBefore(a, start, 0), TapsBefore(a, start, a.in.by)};
}

struct Pixel {
  int32_t sample = 0, at[3] = {};
};

// Which pixel `index` is, of those that the axes' extents kSide count.
template <Divisor WindowAxis::*kSide>
ACT_DEVICE Pixel PixelOf(const WindowParameters& w, int32_t index) {
  Pixel p;
  p.at[2] = Split(w.axes[2].*kSide, index);
  p.at[1] = Split(w.axes[1].*kSide, index);
  p.at[0] = Split(w.axes[0].*kSide, index);
  p.sample = index;
  return p;
}
template <Divisor WindowAxis::*kSide>
ACT_DEVICE int64_t IndexOf(const WindowParameters& w, const Pixel& p) {
  int64_t index = p.sample;
  for (int32_t a = 0; a < 3; ++a) index = index * (w.axes[a].*kSide).by + p.at[a];
  return index;
}

// Calls f(index of an input pixel, tap) for each position of the window of output pixel o that lies inside,
// in ascending order.
template <class F>
ACT_DEVICE void ForEachTap(const WindowParameters& w, const Pixel& o, const F& f) {
  const WindowAxis &a = w.axes[0], &b = w.axes[1], &c = w.axes[2];
  const Span sa = SpanOf(a, o.at[0]), sb = SpanOf(b, o.at[1]), sc = SpanOf(c, o.at[2]);
  for (int32_t i = sa.first; i < sa.end; ++i)
    for (int32_t j = sb.first; j < sb.end; ++j) {
      const int64_t plane = int64_t{o.sample} * a.in.by + sa.start + i * a.dilation.by;
      const int64_t row = (plane * b.in.by + sb.start + j * b.dilation.by) * c.in.by + sc.start;
      const int32_t tap = (i * b.kernel.by + j) * c.kernel.by;
      for (int32_t k = sc.first; k < sc.end; ++k) f(row + k * c.dilation.by, tap + k);
    }
}

// The output that reads coordinate `in` at position `tap`, or -1.
ACT_DEVICE int32_t ReaderOf(const WindowAxis& a, int32_t in, int32_t tap) {
  const int32_t scaled = in + a.pad - tap * a.dilation.by;
  if (scaled < 0) return -1;
  const int32_t o = Quotient(a.stride, scaled);
  return o * a.stride.by == scaled && o < a.out.by ? o : -1;
}

// Calls f(output pixel, tap) for each output that reads input pixel x, in ascending order: gradients gather
// by it.
template <class F>
ACT_DEVICE void ForEachReader(const WindowParameters& w, const Pixel& x, const F& f) {
  Pixel o{x.sample, {}};
  for (int32_t i = w.axes[0].kernel.by; i-- > 0;) {
    if ((o.at[0] = ReaderOf(w.axes[0], x.at[0], i)) < 0) continue;
    for (int32_t j = w.axes[1].kernel.by; j-- > 0;) {
      if ((o.at[1] = ReaderOf(w.axes[1], x.at[1], j)) < 0) continue;
      for (int32_t k = w.axes[2].kernel.by; k-- > 0;) {
        if ((o.at[2] = ReaderOf(w.axes[2], x.at[2], k)) < 0) continue;
        f(o, (i * w.axes[1].kernel.by + j) * w.axes[2].kernel.by + k);
      }
    }
  }
}

}  // namespace act::cuda
