#include "kernels/cpu/convert_bfloat16.h"

#include <omp.h>

#include <algorithm>

#include "kernels/cpu/bfloat16_tile.h"
#include "kernels/cpu/float_rows.h"
#include "kernels/cpu/special.h"

namespace act {
namespace {

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
  ByThreads(n, threads,
            [=](int64_t at, int64_t count) { WidenTile(static_cast<size_t>(count), from + at, to + at); });
}

void RoundToBFloat16(const float* from, int64_t n, BFloat16* to, int threads) {
  ByThreads(n, threads,
            [=](int64_t at, int64_t count) { RoundTile(static_cast<size_t>(count), from + at, to + at); });
}

void RoundInPlace(float* x, int64_t n, int threads) {
  ByThreads(n, threads, [=](int64_t at, int64_t count) { RoundRow(count, x + at, x + at); });
}

}  // namespace act
