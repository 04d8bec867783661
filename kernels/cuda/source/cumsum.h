// Running sums along an axis. A column is one of outer * inner; its elements are `inner` apart.
#pragma once

#include "kernels/cuda/source/cumsum_parameters.h"
#include "kernels/cuda/source/scan.h"
#include "kernels/math/running_sum.h"

namespace act::cuda {

// The place of element i of a column in the order of the sum.
ACT_DEVICE int64_t PlaceInColumn(const CumSumParameters& p, int32_t i) {
  return int64_t{p.reverse ? p.extent - 1 - i : i} * p.inner;
}

// A thread for each column adds as the reference does.
template <class T>
ACT_DEVICE void ShortCumSum(const CumSumParameters& p) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= p.columns) return;
  const int64_t outer = column / p.inner, first = outer * p.extent * p.inner + (column - outer * p.inner);
  RunningSum<T> sum = 0;
  for (int32_t i = 0; i < p.extent; ++i) {
    const int64_t at = first + PlaceInColumn(p, i);
    const RunningSum<T> before = sum;
    sum += static_cast<RunningSum<T>>(Load(static_cast<const T*>(p.x) + at));
    Store(static_cast<T*>(p.y) + at, static_cast<T>(p.exclusive ? before : sum));
  }
}

// A block for kColumns neighbours, which it goes through from the beginning. Its threads for a column add up
// kCumSumEach elements each, then what threads before them have, then what came before all of them.
template <class T, int kColumns>
ACT_DEVICE void CumSum(const CumSumParameters& p) {
  using Sum = RunningSum<T>;
  constexpr int32_t kRows = kCumSumThreads / kColumns;
  const int32_t outer = blockIdx.x / p.tiles, tile = blockIdx.x - outer * p.tiles;
  const int32_t column = tile * kColumns + threadIdx.x % kColumns, row = threadIdx.x / kColumns;
  const int32_t extent = column < p.inner ? p.extent : 0;
  const int64_t base = int64_t{outer} * p.extent * p.inner + column;
  Sum carried = 0;
  for (int32_t start = 0; start < p.extent; start += kRows * kCumSumEach) {
    const int32_t first = start + row * kCumSumEach;
    T x[kCumSumEach];
    Sum mine = 0;
#pragma unroll
    for (int k = 0; k < kCumSumEach; ++k) {
      x[k] = 0;
      if (first + k < extent) x[k] = Load(static_cast<const T*>(p.x) + base + PlaceInColumn(p, first + k));
      mine += static_cast<Sum>(x[k]);
    }
    Sum all;
    Sum sum = carried + SumBefore<kCumSumThreads, kColumns>(mine, &all);
    carried += all;
#pragma unroll
    for (int k = 0; k < kCumSumEach; ++k) {
      const Sum before = sum;
      sum += static_cast<Sum>(x[k]);
      if (first + k < extent)
        Store(static_cast<T*>(p.y) + base + PlaceInColumn(p, first + k),
              static_cast<T>(p.exclusive ? before : sum));
    }
  }
}

}  // namespace act::cuda
