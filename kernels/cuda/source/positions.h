// Range, FlatIndex and NonZero: positions of elements.
#pragma once

#include "kernels/cuda/source/device.h"
#include "kernels/cuda/source/positions_parameters.h"
#include "kernels/cuda/source/report.h"
#include "kernels/cuda/source/scan.h"

namespace act::cuda {

ACT_DEVICE void Range(const RangeParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.items) Store(p.y + i, p.first + p.step * i);
}

// A thread for each tuple. A number outside of its axis counts as 0.
template <class Index>
ACT_DEVICE void FlatIndex(const FlatIndexParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  const Index* tuple = static_cast<const Index*>(p.tuples) + int64_t{i} * p.length;
  int64_t position = 0;
  for (int32_t k = 0; k < p.length; ++k) {
    const int64_t at = Load(tuple + k), extent = p.extents[k];
    const bool inside = at >= -extent && at < extent;
    if (!inside) Report(p.faults, p.fault_sites[k], DataFault::kIndex, at);
    position = position * extent + (!inside ? 0 : at < 0 ? at + extent : at);
  }
  Store(p.y + i, position);
}

// ---- NonZero: blocks count what they find, one block adds up the counts, blocks place what they find. Every order
// follows from the elements.

// NaN counts, -0 does not.
template <class T>
ACT_DEVICE bool IsFound(const NonZeroParameters& p, int32_t i) {
  return i < p.count && Load(static_cast<const T*>(p.x) + i) != 0;
}

// Neighbouring elements of a thread, so that their order is that of threads.
inline constexpr int kFoundByThread = kFoundItems / kFoundThreads;
ACT_DEVICE int32_t FirstOfThread() { return (blockIdx.x * kFoundThreads + threadIdx.x) * kFoundByThread; }

template <class T>
ACT_DEVICE uint32_t CountOfThread(const NonZeroParameters& p) {
  uint32_t found = 0;
  for (int32_t k = 0; k < kFoundByThread; ++k) found += IsFound<T>(p, FirstOfThread() + k);
  return found;
}

template <class T>
ACT_DEVICE void CountNonZero(const NonZeroParameters& p) {
  const uint32_t count = SumOverTeam<kFoundThreads>(CountOfThread<T>(p));
  if (threadIdx.x == 0) Store(p.counts + blockIdx.x, count);
}

// Replaces each count by the sum of those before it, and puts the sum of all at the end. One block.
ACT_DEVICE void ScanNonZero(const NonZeroParameters& p) {
  const int32_t each = (p.blocks + kFoundScanThreads - 1) / kFoundScanThreads;
  const int32_t begin = threadIdx.x * each, end = begin + each < p.blocks ? begin + each : p.blocks;
  uint32_t mine = 0;
  for (int32_t i = begin; i < end; ++i) mine += Load(p.counts + i);
  uint32_t sum = SumBefore<kFoundScanThreads>(mine);
  for (int32_t i = begin; i < end; ++i) {
    const uint32_t count = Load(p.counts + i);
    Store(p.counts + i, sum);
    sum += count;
  }
  if (threadIdx.x == kFoundScanThreads - 1) Store(p.counts + p.blocks, sum);
}

template <class T>
ACT_DEVICE void PlaceNonZero(const NonZeroParameters& p) {
  int64_t place = Load(p.counts + blockIdx.x) + int64_t{SumBefore<kFoundThreads>(CountOfThread<T>(p))};
  for (int32_t k = 0; k < kFoundByThread; ++k) {
    const int32_t i = FirstOfThread() + k;
    if (!IsFound<T>(p, i)) continue;
    int32_t rest = i;
    for (int32_t d = p.rank - 1; d >= 0; --d)
      Store(p.at + int64_t{d} * p.count + place, Split(p.dims[d], rest));
    ++place;
  }
}

// The flags, and the places after the last one that was found, which have the first one's coordinates.
ACT_DEVICE void EndNonZero(const NonZeroParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const uint32_t found = Load(p.counts + p.blocks);
  const bool live = static_cast<uint32_t>(i) < found;
  Store(p.live + i, live);
  for (int32_t d = 0; d < p.rank && !live; ++d) {
    int64_t* axis = p.at + int64_t{d} * p.count;
    Store(axis + i, found > 0 ? Load(axis) : 0);
  }
}

}  // namespace act::cuda
