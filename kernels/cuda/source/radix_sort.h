// A stable sort of pairs by their keys, from the least digit to the most significant one. For each
// digit: blocks count their keys by digit, one block adds up the counts, blocks move their pairs. A warp
// works on neighbouring pairs, 32 at a time, so every order follows from the pairs alone.
#pragma once

#include "kernels/cuda/source/radix_sort_parameters.h"
#include "kernels/cuda/source/team.h"

namespace act::cuda {

ACT_DEVICE int32_t CountBits(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0fu;
  return static_cast<int32_t>(x * 0x01010101u >> 24);
}

// Calls f(i, digit, which lanes have the same digit) for the pairs of a thread's warp. A lane past the
// last pair has no lanes.
template <class F>
ACT_DEVICE void ForPairsOfWarp(const SortParameters& p, F f) {
  constexpr int kWarpItems = kSortItems / (kSortThreads / 32);
  const int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kSortItems + warp * kWarpItems;
  for (int32_t i = first + lane; i < first + kWarpItems + lane; i += 32) {
    const bool inside = i < p.count;
    const uint32_t digit = inside ? Load(p.keys + i) >> p.shift & (kDigits - 1) : 0;
    uint32_t same = Ballot(kAllLanes, inside);
    for (int b = 0; b < kDigitBits; ++b) {
      const bool bit = digit >> b & 1;
      const uint32_t ones = Ballot(kAllLanes, bit);
      same &= bit ? ones : ~ones;
    }
    f(i, digit, inside ? same : 0);
  }
}

// Adds the pairs of a thread's warp to `of_warp`, by digit. One lane of those with the same digit does it.
ACT_DEVICE void CountDigits(const SortParameters& p, uint32_t* of_warp) {
  const uint32_t below = (1u << threadIdx.x % 32) - 1;
  ForPairsOfWarp(p, [&](int32_t, uint32_t digit, uint32_t same) {
    if (same != 0 && (same & below) == 0) of_warp[digit] += CountBits(same);
    SyncWarp();
  });
}

ACT_DEVICE void ClearDigits(uint32_t* counts, int words) {
  for (int i = threadIdx.x; i < words; i += kSortThreads) counts[i] = 0;
  SyncThreads();
}

ACT_DEVICE void SortCount(const SortParameters& p) {
  constexpr int kWarps = kSortThreads / 32;
  ACT_SHARED(uint32_t, counts, kWarps * kDigits);
  ClearDigits(counts, kWarps * kDigits);
  CountDigits(p, counts + threadIdx.x / 32 * kDigits);
  SyncThreads();
  for (int digit = threadIdx.x; digit < kDigits; digit += kSortThreads) {
    uint32_t sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += counts[w * kDigits + digit];
    Store(p.counts + digit * p.blocks + blockIdx.x, sum);
  }
}

// Replaces each count by the sum of those before it. One block.
ACT_DEVICE void SortScan(const SortParameters& p) {
  ACT_SHARED(uint32_t, sums, kScanThreads);
  const int32_t total = kDigits * p.blocks, each = (total + kScanThreads - 1) / kScanThreads;
  const int32_t t = threadIdx.x, begin = t * each, end = begin + each < total ? begin + each : total;
  uint32_t mine = 0;
  for (int32_t i = begin; i < end; ++i) mine += Load(p.counts + i);
  sums[t] = mine;
  SyncThreads();
  for (int distance = 1; distance < kScanThreads; distance *= 2) {
    const uint32_t before = t >= distance ? sums[t - distance] : 0;
    SyncThreads();
    sums[t] += before;
    SyncThreads();
  }
  uint32_t sum = sums[t] - mine;
  for (int32_t i = begin; i < end; ++i) {
    const uint32_t count = Load(p.counts + i);
    Store(p.counts + i, sum);
    sum += count;
  }
}

ACT_DEVICE void SortMove(const SortParameters& p) {
  constexpr int kWarps = kSortThreads / 32;
  ACT_SHARED(uint32_t, next, kWarps * kDigits);  // the place of each warp's next pair, by digit
  ClearDigits(next, kWarps * kDigits);
  uint32_t* of_warp = next + threadIdx.x / 32 * kDigits;
  CountDigits(p, of_warp);
  SyncThreads();
  for (int digit = threadIdx.x; digit < kDigits; digit += kSortThreads) {
    uint32_t place = Load(p.counts + digit * p.blocks + blockIdx.x);
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = next[w * kDigits + digit];
      next[w * kDigits + digit] = place;
      place += count;
    }
  }
  SyncThreads();
  const uint32_t below = (1u << threadIdx.x % 32) - 1;
  ForPairsOfWarp(p, [&](int32_t i, uint32_t digit, uint32_t same) {
    const uint32_t place = of_warp[digit] + CountBits(same & below);
    SyncWarp();
    if (same != 0) {
      Store(p.keys_to + place, Load(p.keys + i));
      Store(p.values_to + place, Load(p.values + i));
      if ((same & below) == 0) of_warp[digit] = place + CountBits(same);
    }
    SyncWarp();
  });
}

}  // namespace act::cuda
