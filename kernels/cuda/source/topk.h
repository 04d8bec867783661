// The places of the largest elements of rows, in order. An element's rank follows from its key, an unsigned number that
// is the smaller the earlier the element comes in the result, and where keys are equal from its place, counted from the
// end if the last of equals comes first.
#pragma once

#include "kernels/cuda/source/team.h"
#include "kernels/cuda/source/topk_parameters.h"

namespace act::cuda {

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Ascending, with as many bits as T has. Zeros are equal, NaNs too, and larger than all numbers.
ACT_DEVICE uint32_t AscendingKey(float x) {
  if (x != x) return ~0u;
  const uint32_t bits = FloatBits(x == 0 ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
template <class T>
ACT_DEVICE KeyOf<T> AscendingKey(T x) {
  constexpr KeyOf<T> kBits = ~KeyOf<T>{0} >> 8 * (sizeof(KeyOf<T>) - sizeof(T));
  constexpr KeyOf<T> kSign = std::is_signed_v<T> ? KeyOf<T>{1} << (8 * sizeof(T) - 1) : KeyOf<T>{0};
  return (static_cast<KeyOf<T>>(x) & kBits) ^ kSign;
}

// The place in its row of the element that is `a`th where equals are in order.
ACT_DEVICE int32_t PlaceInRow(const TopKParameters& p, int32_t a) { return p.last ? p.extent - 1 - a : a; }

template <class T>
ACT_DEVICE KeyOf<T> KeyAt(const TopKParameters& p, int32_t row, int32_t a) {
  constexpr KeyOf<T> kBits = ~KeyOf<T>{0} >> 8 * (sizeof(KeyOf<T>) - sizeof(T));
  const KeyOf<T> key =
      AscendingKey(Load(static_cast<const T*>(p.x) + int64_t{row} * p.extent + PlaceInRow(p, a)));
  return p.largest ? key ^ kBits : key;
}

// Few elements of a row: a team reads the row once for each, and takes the first that comes after the one before.
template <class T, int kTeam>
ACT_DEVICE void SelectTopK(const TopKParameters& p) {
  using Key = KeyOf<T>;
  constexpr int32_t kNone = 0x7fffffff;
  const int32_t lane = threadIdx.x % kTeam, row = (blockIdx.x * blockDim.x + threadIdx.x) / kTeam;
  const int32_t extent = row < p.rows ? p.extent : 0;
  Key taken = 0;
  int32_t taken_at = -1;
  for (int32_t j = 0; j < p.k; ++j) {
    Key best = ~Key{0};
    int32_t best_at = kNone;
    for (int32_t a = lane; a < extent; a += kTeam) {
      const Key key = KeyAt<T>(p, row, a);
      const bool is_left = key > taken || (key == taken && a > taken_at);
      if (is_left && (key < best || (key == best && a < best_at))) {
        best = key;
        best_at = a;
      }
    }
    taken = OverTeam<kTeam>(best, [](Key a, Key b) { return a < b ? a : b; });
    taken_at =
        OverTeam<kTeam>(best == taken ? best_at : kNone, [](int32_t a, int32_t b) { return a < b ? a : b; });
    if (lane == 0 && row < p.rows) Store(p.index + int64_t{row} * p.k + j, PlaceInRow(p, taken_at));
  }
}

// ---- Many elements: all rows are sorted together (radix_sort.h), by the words of keys and then by row. The sort keeps
// equals in order, which is that of the elements at first.

template <class T, KeyWord kWord, bool kStarts>
ACT_DEVICE void FetchKeys(const TopKParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  const int32_t element = kStarts ? i : static_cast<int32_t>(Load(p.values + i));
  int32_t row = element;
  const int32_t a = Split(p.row, row);
  if constexpr (kStarts) Store(p.values + i, static_cast<uint32_t>(element));
  if constexpr (kWord == KeyWord::kRow)
    Store(p.keys + i, static_cast<uint32_t>(row));
  else
    Store(p.keys + i,
          static_cast<uint32_t>(uint64_t{KeyAt<T>(p, row, a)} >> (kWord == KeyWord::kHigh ? 32 : 0)));
}

ACT_DEVICE void TakeSorted(const TopKParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t row = i;
  const int32_t j = Split(p.selected, row);
  int32_t element = static_cast<int32_t>(Load(p.values + int64_t{row} * p.extent + j));
  Store(p.index + i, PlaceInRow(p, Split(p.row, element)));
}

}  // namespace act::cuda
