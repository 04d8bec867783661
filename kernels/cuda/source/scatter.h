// Updates of rows that are looked up by an index. They are sorted by target (radix_sort.h), which keeps
// those of one target in order. Then a thread combines one column of kChunkRows of them, and where a
// target's updates lie in several chunks, another adds what the chunks have.
#pragma once

#include "kernels/cuda/source/lookup.h"

namespace act::cuda {

// As Reduce of kernels/site/gather_shape.h: NaN wins, and integers wrap.
template <class T>
using WrappingOf = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
struct KeepLast {
  template <class T>
  ACT_DEVICE static T Of(T, T b) {
    return b;
  }
};
struct AddUp {
  template <class T>
  ACT_DEVICE static T Of(T a, T b) {
    return static_cast<T>(static_cast<WrappingOf<T>>(a) + static_cast<WrappingOf<T>>(b));
  }
};
struct MultiplyUp {
  template <class T>
  ACT_DEVICE static T Of(T a, T b) {
    return static_cast<T>(static_cast<WrappingOf<T>>(a) * static_cast<WrappingOf<T>>(b));
  }
};
struct KeepLeast {
  template <class T>
  ACT_DEVICE static T Of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct KeepLargest {
  template <class T>
  ACT_DEVICE static T Of(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

// The target of each row, and its number.
template <class Index, LiveFlags kFlags>
ACT_DEVICE void FindTargets(const ScatterParameters& p) {
  const int32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= p.count) return;
  const RowPlace at = PlaceOfRow<Index, kFlags>(p.lookup, row, true);
  Store(p.keys + row, at.inside && at.live ? static_cast<uint32_t>(at.place) : p.targets);
  Store(p.positions + row, static_cast<uint32_t>(row));
}

template <class T, class Reduction>
ACT_DEVICE void CombineChunks(const ScatterParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t chunk = i;
  const int32_t column = Split(p.length, chunk);
  const auto update = [&](int32_t j) {
    const int64_t row = Load(p.positions + j);
    return Load(static_cast<const T*>(p.update) + row * p.length.by + column);
  };
  const int32_t end = p.count - chunk * kChunkRows < kChunkRows ? p.count : (chunk + 1) * kChunkRows;
  for (int32_t j = chunk * kChunkRows; j < end;) {
    const uint32_t target = Load(p.keys + j);
    if (target >= p.targets) return;  // and so are all that follow
    const bool begins = j == 0 || Load(p.keys + j - 1) != target;
    T* place = static_cast<T*>(p.y) + target * p.unit + column;
    T acc = update(j);
    if (begins) acc = Reduction::Of(Load(place), acc);
    for (++j; j < end && Load(p.keys + j) == target; ++j) acc = Reduction::Of(acc, update(j));
    const bool ends = j == p.count || Load(p.keys + j) != target;
    Store(begins && ends ? place : static_cast<T*>(begins ? p.tails : p.heads) + i, acc);
  }
}

// Wide: in which the chunks of a target are combined.
template <class T, class Wide, class Reduction>
ACT_DEVICE void JoinChunks(const ScatterParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t chunk = i;
  const int32_t column = Split(p.length, chunk);
  int32_t end = (chunk + 1) * kChunkRows;
  if (end >= p.count) return;
  const uint32_t target = Load(p.keys + end);
  const bool begins_here =
      Load(p.keys + end - 1) == target && (chunk == 0 || Load(p.keys + chunk * kChunkRows - 1) != target);
  if (target >= p.targets || !begins_here) return;
  Wide acc = Load(static_cast<const T*>(p.tails) + i);
  for (int64_t head = i; end < p.count && Load(p.keys + end) == target; end += kChunkRows) {
    head += p.length.by;
    acc = Reduction::Of(acc, static_cast<Wide>(Load(static_cast<const T*>(p.heads) + head)));
  }
  Store(static_cast<T*>(p.y) + target * p.unit + column, static_cast<T>(acc));
}

}  // namespace act::cuda
