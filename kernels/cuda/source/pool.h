// Poolings over channels-last activations of type T. A thread makes kCount neighbouring channels of one pixel, forward
// and backward: a gradient gathers from all windows that read its pixel, always in the same order.
#pragma once

#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/pool_parameters.h"
#include "kernels/cuda/source/window.h"

namespace act::cuda {

// A thread's work: channels channel..channel+kCount-1 of a pixel.
struct PoolItem {
  int32_t pixel = 0, channel = 0;
};
template <int kCount>
ACT_DEVICE bool FindItem(const PoolParameters& p, PoolItem& item) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= p.items) return false;
  auto i = static_cast<int32_t>(thread);
  item.channel = Split(p.groups, i) * kCount;
  item.pixel = i;
  return true;
}

ACT_DEVICE void StoreIndex(uint8_t* to, const int (&at)[1]) { Store(to, static_cast<uint8_t>(at[0])); }
ACT_DEVICE void StoreIndex(int32_t* to, const int (&at)[1]) { Store(to, at[0]); }
ACT_DEVICE void StoreIndex(uint8_t* to, const int (&at)[4]) {
  const int bytes = at[0] | at[1] << 8 | at[2] << 16 | at[3] << 24;
  Store(reinterpret_cast<uint32_t*>(to), static_cast<uint32_t>(bytes));
}
ACT_DEVICE void StoreIndex(int32_t* to, const int (&at)[4]) {
  Store(reinterpret_cast<uint4*>(to), uint4{static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1]),
                                            static_cast<uint32_t>(at[2]), static_cast<uint32_t>(at[3])});
}

ACT_DEVICE void LoadIndex(const uint8_t* from, int (&at)[1]) { at[0] = Load(from); }
ACT_DEVICE void LoadIndex(const int32_t* from, int (&at)[1]) { at[0] = Load(from); }
ACT_DEVICE void LoadIndex(const uint8_t* from, int (&at)[4]) {
  const uint32_t bytes = Load(reinterpret_cast<const uint32_t*>(from));
  for (int j = 0; j < 4; ++j) at[j] = static_cast<int>(bytes >> (8 * j) & 255);
}
ACT_DEVICE void LoadIndex(const int32_t* from, int (&at)[4]) {
  const uint4 v = Load(reinterpret_cast<const uint4*>(from));
  at[0] = static_cast<int>(v.x), at[1] = static_cast<int>(v.y);
  at[2] = static_cast<int>(v.z), at[3] = static_cast<int>(v.w);
}

// The first of equals wins. A NaN replaces any number, and then stays.
template <class T, int kCount, class Index>
ACT_DEVICE void MaxPool(const PoolParameters& p) {
  PoolItem item;
  if (!FindItem<kCount>(p, item)) return;
  Floats<kCount> best;
  int at[kCount];
  for (int j = 0; j < kCount; ++j) best.at[j] = FromBits(0xff800000u), at[j] = 0;  // minus infinity
  bool first = true;
  ForEachTap(p.window, PixelOf<&WindowAxis::out>(p.window, item.pixel), [&](int64_t from, int32_t tap) {
    Floats<kCount> x;
    LoadFloats(static_cast<const T*>(p.from) + from * p.channels + item.channel, x);
    for (int j = 0; j < kCount; ++j) {
      const bool wins = x.at[j] > best.at[j] || (x.at[j] != x.at[j] && best.at[j] == best.at[j]);
      if (!first && !wins) continue;
      best.at[j] = x.at[j];
      at[j] = static_cast<int>(tap);
    }
    first = false;
  });
  const int64_t to = int64_t{item.pixel} * p.channels + item.channel;
  StoreFloats(static_cast<T*>(p.to) + to, best);
  if (p.index) StoreIndex(static_cast<Index*>(p.index) + to, at);
}

template <class T, int kCount, class Index>
ACT_DEVICE void MaxPoolGrad(const PoolParameters& p) {
  PoolItem item;
  if (!FindItem<kCount>(p, item)) return;
  Floats<kCount> sum = {};
  ForEachReader(p.window, PixelOf<&WindowAxis::in>(p.window, item.pixel), [&](const Pixel& o, int32_t tap) {
    const int64_t from = IndexOf<&WindowAxis::out>(p.window, o) * p.channels + item.channel;
    Floats<kCount> dy;
    int at[kCount];
    LoadIndex(static_cast<const Index*>(p.index) + from, at);
    LoadFloats(static_cast<const T*>(p.from) + from, dy);
    for (int j = 0; j < kCount; ++j)
      if (at[j] == tap) sum.at[j] += dy.at[j];
  });
  StoreFloats(static_cast<T*>(p.to) + int64_t{item.pixel} * p.channels + item.channel, sum);
}

// 1 / the number of elements that output pixel o averages, or 0 if there are none.
ACT_DEVICE float AverageScale(const PoolParameters& p, const Pixel& o) {
  int64_t count = 1;
  for (int32_t d = 0; d < 3; ++d) {
    const WindowAxis& a = p.window.axes[d];
    const Span span = SpanOf(a, o.at[d]);
    const int32_t taps =
        p.include_pad ? TapsBefore(a, span.start, a.in.by + a.pad_end) : span.end - span.first;
    count *= taps > 0 ? taps : 0;
  }
  return count ? 1 / static_cast<float>(count) : 0;
}

template <class T, int kCount>
ACT_DEVICE void AveragePool(const PoolParameters& p) {
  PoolItem item;
  if (!FindItem<kCount>(p, item)) return;
  const Pixel o = PixelOf<&WindowAxis::out>(p.window, item.pixel);
  Floats<kCount> sum = {};
  ForEachTap(p.window, o, [&](int64_t from, int32_t) {
    Floats<kCount> x;
    LoadFloats(static_cast<const T*>(p.from) + from * p.channels + item.channel, x);
    for (int j = 0; j < kCount; ++j) sum.at[j] += x.at[j];
  });
  const float scale = AverageScale(p, o);
  for (int j = 0; j < kCount; ++j) sum.at[j] *= scale;
  StoreFloats(static_cast<T*>(p.to) + int64_t{item.pixel} * p.channels + item.channel, sum);
}

template <class T, int kCount>
ACT_DEVICE void AveragePoolGrad(const PoolParameters& p) {
  PoolItem item;
  if (!FindItem<kCount>(p, item)) return;
  Floats<kCount> sum = {};
  ForEachReader(p.window, PixelOf<&WindowAxis::in>(p.window, item.pixel), [&](const Pixel& o, int32_t) {
    Floats<kCount> dy;
    LoadFloats(
        static_cast<const T*>(p.from) + IndexOf<&WindowAxis::out>(p.window, o) * p.channels + item.channel,
        dy);
    const float scale = AverageScale(p, o);
    for (int j = 0; j < kCount; ++j) sum.at[j] = MulAdd(scale, dy.at[j], sum.at[j]);
  });
  StoreFloats(static_cast<T*>(p.to) + int64_t{item.pixel} * p.channels + item.channel, sum);
}

}  // namespace act::cuda
