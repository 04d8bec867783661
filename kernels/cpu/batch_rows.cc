#include "kernels/cpu/batch_rows.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/batch_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "kernels/cpu/bfloat16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of channels whose sums stay in registers.
constexpr size_t kVectors = 4;
constexpr size_t kMostChannels = kVectors * 16;

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const BFloat16* from) {
  return LoadBFloat16(d, from);
}

// The lines of `bytes` bytes. A prefetch is not an access, so the address need not be valid.
template <size_t kBytes>
HWY_INLINE void AskFor(uintptr_t at) {
  for (size_t i = 0; i < kBytes; i += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(at + i), 0, 2);  // NOLINT(performance-no-int-to-ptr)
}

// Calls f(d, kCount) for channels at, at + Lanes(d) .. of kCount vectors, until all have been taken. The
// last channels are taken by narrower vectors.
template <size_t kLanes, class F>
HWY_INLINE void ForChannels(int64_t channels, int64_t at, const F& f) {
  const HWY_CAPPED(float, kLanes) d;
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(d));
  if constexpr (kLanes == 16)
    for (; at + static_cast<int64_t>(kVectors) * kStep <= channels;
         at += static_cast<int64_t>(kVectors) * kStep)
      f(d, std::integral_constant<size_t, kVectors>(), at);
  for (; at + kStep <= channels; at += kStep) f(d, std::integral_constant<size_t, 1>(), at);
  if constexpr (kLanes > 1) ForChannels<kLanes / 4>(channels, at, f);
}

template <class T>
void ComputeMean(const T* x, int64_t rows, int64_t channels, float* center) {
  const float scale = 1.0f / static_cast<float>(rows);
  ForChannels<16>(channels, 0, [&](auto d, auto count, int64_t at) HWY_ATTR {
    using D = decltype(d);
    hn::Vec<D> sum[count];
    for (size_t v = 0; v < count; ++v) sum[v] = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r)
      for (size_t v = 0; v < count; ++v)
        sum[v] =
            hn::Add(sum[v], LoadFloats(d, x + r * channels + at + static_cast<int64_t>(v * hn::Lanes(d))));
    for (size_t v = 0; v < count; ++v)
      hn::StoreU(hn::Mul(sum[v], hn::Set(d, scale)), d, center + at + static_cast<int64_t>(v * hn::Lanes(d)));
  });
}

// Deviations from the center, and their squares, of the channels from `at` on. Widens their range.
template <bool kRange, class T, class D, size_t kCount>
HWY_INLINE void AddDeviations(D d, std::integral_constant<size_t, kCount>, const T* x, int64_t rows,
                              int64_t channels, const float* center, float* deviation, float* square,
                              float* low, float* high) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  V middle[kCount], sum[kCount], squares[kCount], least[kCount], most[kCount];
  for (size_t v = 0; v < kCount; ++v) {
    middle[v] = hn::LoadU(d, center + v * lanes);
    sum[v] = squares[v] = hn::Zero(d);
    if constexpr (kRange) {
      least[v] = hn::LoadU(d, low + v * lanes);
      most[v] = hn::LoadU(d, high + v * lanes);
    }
  }
  const auto ahead = static_cast<uintptr_t>(rows * channels) * sizeof(T);
  for (int64_t r = 0; r < rows; ++r, x += channels) {
    AskFor<kCount * hn::MaxLanes(D()) * sizeof(T)>(reinterpret_cast<uintptr_t>(x) + ahead);
    for (size_t v = 0; v < kCount; ++v) {
      const V value = LoadFloats(d, x + v * lanes), distance = hn::Sub(value, middle[v]);
      sum[v] = hn::Add(sum[v], distance);
      squares[v] = hn::MulAdd(distance, distance, squares[v]);
      if constexpr (kRange) {
        least[v] = hn::IfThenElse(hn::Lt(value, least[v]), value, least[v]);
        most[v] = hn::IfThenElse(hn::Gt(value, most[v]), value, most[v]);
      }
    }
  }
  for (size_t v = 0; v < kCount; ++v) {
    hn::StoreU(sum[v], d, deviation + v * lanes);
    hn::StoreU(squares[v], d, square + v * lanes);
    if constexpr (kRange) {
      hn::StoreU(least[v], d, low + v * lanes);
      hn::StoreU(most[v], d, high + v * lanes);
    }
  }
}

template <bool kRange, class T>
void Merge(const T* x, int64_t rows, int64_t channels, const float* center, const RowMoments& m) {
  const auto n = static_cast<double>(rows), total = static_cast<double>(m.rows + rows);
  const double share = n / total, cross = static_cast<double>(m.rows) * share, inverse = 1 / n;
  ForChannels<16>(channels, 0, [&](auto d, auto count, int64_t at) HWY_ATTR {
    float deviation[kMostChannels], square[kMostChannels];
    AddDeviations<kRange>(d, count, x + at, rows, channels, center + at, deviation, square,
                          kRange ? m.low + at : nullptr, kRange ? m.high + at : nullptr);
    for (size_t i = 0; i < count * hn::Lanes(d); ++i) {
      const auto c = static_cast<size_t>(at) + i;
      const double sum = deviation[i], missed = sum * inverse;
      const double delta = center[c] + missed - m.mean[c];
      m.mean[c] += delta * share;
      m.m2[c] += square[i] - sum * missed + delta * delta * cross;
    }
  });
}

#define ACT_BATCH_ROWS(T, Name)                                                     \
  void Mean##Name(const T* x, int64_t rows, int64_t channels, float* center) {      \
    ComputeMean(x, rows, channels, center);                                         \
  }                                                                                 \
  void Merge##Name(const T* x, int64_t rows, int64_t channels, const float* center, \
                   const RowMoments& moments) {                                     \
    moments.low ? Merge<true>(x, rows, channels, center, moments)                   \
                : Merge<false>(x, rows, channels, center, moments);                 \
  }
ACT_BATCH_ROWS(float, Floats)
ACT_BATCH_ROWS(BFloat16, BFloat16s)
#undef ACT_BATCH_ROWS

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(MeanFloats);
HWY_EXPORT(MeanBFloat16s);
HWY_EXPORT(MergeFloats);
HWY_EXPORT(MergeBFloat16s);

void MeanOfRows(const float* x, int64_t rows, int64_t channels, float* center) {
  HWY_DYNAMIC_DISPATCH(MeanFloats)(x, rows, channels, center);
}
void MeanOfRows(const BFloat16* x, int64_t rows, int64_t channels, float* center) {
  HWY_DYNAMIC_DISPATCH(MeanBFloat16s)(x, rows, channels, center);
}
void MergeRows(const float* x, int64_t rows, int64_t channels, const float* center, RowMoments& moments) {
  HWY_DYNAMIC_DISPATCH(MergeFloats)(x, rows, channels, center, moments);
  moments.rows += rows;
}
void MergeRows(const BFloat16* x, int64_t rows, int64_t channels, const float* center, RowMoments& moments) {
  HWY_DYNAMIC_DISPATCH(MergeBFloat16s)(x, rows, channels, center, moments);
  moments.rows += rows;
}

}  // namespace act
#endif
