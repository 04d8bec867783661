#include "kernels/cpu/convert_bfloat16.h"

#include <omp.h>

#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"

namespace act {
namespace {

ACT_VECTOR_CLONES
void WidenRange(const BFloat16* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = ToFloat(from[i]);
}

ACT_VECTOR_CLONES
void RoundRange(const float* from, int64_t n, BFloat16* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = FromFloat<BFloat16>(from[i]);
}

ACT_VECTOR_CLONES
void RoundRangeInPlace(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = ToFloat(FromFloat<BFloat16>(x[i]));
}

// Calls f(first, count) for a part of 0..n-1 on each thread. Parts start at whole cache lines.
template <class F>
void ByThreads(int64_t n, int threads, F&& f) {
  if (n <= kParallelElements) threads = 1;
  const int64_t part = ((n + threads - 1) / threads + 31) / 32 * 32;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int t = 0; t < threads; ++t)
    if (const int64_t first = t * part; first < n) f(first, std::min(part, n - first));
}

}  // namespace

void Widen(const BFloat16* from, int64_t n, float* to, int threads) {
  ByThreads(n, threads, [=](int64_t at, int64_t count) { WidenRange(from + at, count, to + at); });
}

void RoundToBFloat16(const float* from, int64_t n, BFloat16* to, int threads) {
  ByThreads(n, threads, [=](int64_t at, int64_t count) { RoundRange(from + at, count, to + at); });
}

void RoundInPlace(float* x, int64_t n, int threads) {
  ByThreads(n, threads, [=](int64_t at, int64_t count) { RoundRangeInPlace(x + at, count); });
}

}  // namespace act
