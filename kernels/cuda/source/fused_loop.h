// What the text of a fused loop is made of, besides codes and arithmetic: its walk over units, columns, sums,
// rows. kernels/cuda/fused_text.cc writes the rest.
#pragma once

#include <limits>

#include "kernels/cuda/source/code_piece.h"
#include "kernels/cuda/source/elements.h"
#include "kernels/cuda/source/fused_parameters.h"

namespace act {

// Says whether every element of a unit exists.
template <bool kIsFull>
struct Fullness {
  static constexpr bool kFull = kIsFull;
};

// ---- Elements in memory

// A lane's elements of a piece, 32 apart. `rest`: how many elements of the piece are left from the lane's
// first one on.
template <bool kFull, int kPerLane, class T>
ACT_DEVICE void LoadElements(const T* from, int rest, float (&x)[kPerLane]) {
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) x[j] = kFull || 32 * j < rest ? LoadFloat(from + 32 * j) : 0.0f;
}

// The column of a piece's element i, if the piece begins at column `phase` of kPeriod. Pieces begin at
// multiples of kAlign elements of a sample, which is a whole number of periods.
template <int64_t kPeriod, int kAlign>
ACT_DEVICE uint32_t ColumnAt(uint32_t phase, int i) {
  if constexpr (kPeriod % kAlign == 0 && kAlign > 1) return phase + static_cast<uint32_t>(i);
  if constexpr (kAlign % kPeriod == 0) return static_cast<uint32_t>(i) % static_cast<uint32_t>(kPeriod);
  return (phase + static_cast<uint32_t>(i)) % static_cast<uint32_t>(kPeriod);
}

// ---- The walk

// Calls run(sample, unit) for all units of a class that the team takes.
template <class Run>
ACT_DEVICE void WalkClass(const LoopWalk& walk, int64_t item, const Run& run) {
  const int64_t first = item % walk.classes;
  const int64_t each =
      (walk.units - first + walk.classes - 1) / walk.classes;  // of the class, in each sample
  const int64_t all = walk.samples * each;
  const int64_t part = blockIdx.x / walk.slices, parts = gridDim.x / walk.slices;
  // Where a class has fewer units than there are shares, those of another class go to other blocks.
  const int64_t shares = parts * walk.splits;
  const int64_t share = (part * walk.splits + item / walk.classes + first) % shares;
  const int64_t begin = all * share / shares, end = all * (share + 1) / shares;
  if (begin == end) return;
  int64_t sample = begin / each, unit = first + begin % each * walk.classes;
  for (int64_t i = begin; i < end; ++i) {
    int64_t at_sample = sample, at_unit = unit;
    if (unit >= walk.units_per_sample) {
      at_sample += unit / walk.units_per_sample;
      at_unit = unit % walk.units_per_sample;
    }
    run(at_sample, at_unit);
    unit += walk.classes;
    if (unit >= walk.units) {
      unit = first;
      ++sample;
    }
  }
}

// ---- Sums over leading axes

// The columns that a team adds up at a time: those of the kSlots elements of a unit, from the unit's first
// column on. A lane adds its own elements in float32, and to its slots after kUnitsPerFlush units. `slots`:
// kSlots numbers of shared memory for the team, in double precision unless they would take too much of it.
template <class Slot, int kPerLane, int kSlots>
class ColumnSum {
 public:
  static constexpr int kUnitsPerFlush = 64;

  // `place`: the lane's first element in its unit.
  ACT_DEVICE ColumnSum(Slot* slots, int place) : slots_(slots), place_(place) {}

  ACT_DEVICE void Clear() {
    units_ = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      some_[j] = 0;
      if (place_ + 32 * j < kSlots) slots_[place_ + 32 * j] = 0;
    }
  }
  ACT_DEVICE void Add(int j, float x) { some_[j] += x; }
  ACT_DEVICE void EndUnit() {
    if (++units_ % kUnitsPerFlush == 0) Flush();
  }
  ACT_DEVICE void Flush() {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (place_ + 32 * j < kSlots) slots_[place_ + 32 * j] += static_cast<Slot>(some_[j]);
      some_[j] = 0;
    }
  }
  // Adds the slots to a block's partial sums. The team's other threads have flushed, and wait. Thread `rank`
  // of `threads` takes every threads-th column; `first`: the unit's first column of `columns`.
  ACT_DEVICE void AddTo(double* total, int64_t columns, int64_t first, int rank, int threads) const {
    const int64_t different = columns < kSlots ? columns : kSlots;
    for (int64_t c = rank; c < different; c += threads) {
      double sum = 0;
      for (int64_t slot = c; slot < kSlots; slot += columns) sum += static_cast<double>(slots_[slot]);
      double* to = total + (first + c) % columns;
      Store(to, Load(to) + sum);
    }
  }
  // The same where nobody else has these columns: as many as the unit has elements, of which `left` are in the sample
  // from the unit's first one on.
  ACT_DEVICE void StoreTo(double* total, int64_t first, int64_t left, int rank, int threads) const {
    for (int c = rank; c < kSlots && c < left; c += threads)
      Store(total + first + c, static_cast<double>(slots_[c]));
  }

 private:
  Slot* const slots_;
  const int place_;
  int units_ = 0;
  float some_[kPerLane];
};

ACT_DEVICE void ClearColumns(double* total, int64_t columns) {
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) Store(total + c, 0.0);
}

// ---- Rows. A block holds a tile of whole rows; a NaN stays a NaN in the maximum.

struct SumOfRow {
  ACT_DEVICE static float Start() { return 0; }
  ACT_DEVICE static float Take(float sum, float x) { return sum + x; }
};
struct MaxOfRow {
  ACT_DEVICE static float Start() { return FloatOf(0xFF800000u); }
  ACT_DEVICE static float Take(float most, float x) { return most < x || x != x ? x : most; }
};

template <class Reduction, int kLanes>
ACT_DEVICE float OverLanes(float x) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) x = Reduction::Take(x, ShuffleXor(kAllLanes, x, mask));
  return x;
}

// A tile of one row: its sum or maximum, for all threads. `of_warps`: a float of shared memory for each warp.
template <class Reduction, int kWarps, int kPerLane>
ACT_DEVICE float ReduceRow(const float (&x)[kPerLane], int count, int lane, float* of_warps) {
  float mine = Reduction::Start();
#pragma unroll
  for (int j = 0; j < kPerLane; ++j)
    if (32 * j + lane < count) mine = Reduction::Take(mine, x[j]);
  mine = OverLanes<Reduction, 32>(mine);
  if constexpr (kWarps == 1) return mine;
  SyncThreads();  // what was there before has been read
  if (lane == 0) of_warps[threadIdx.x / 32] = mine;
  SyncThreads();
  float all = of_warps[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) all = Reduction::Take(all, of_warps[w]);
  return all;
}

// A tile of several rows: replaces each element by the sum or maximum of its row. `place` is the lane's first
// element in the tile, of which `tile` elements exist. `elements`: as many floats of shared memory as threads
// hold, and kTile / kRow.
template <class Reduction, int kRow, int kTile, int kPerLane>
ACT_DEVICE void ReduceRows(const float (&x)[kPerLane], int place, int tile, float* elements,
                           float (&of_row)[kPerLane]) {
  constexpr int kLanes = kRow >= 32 ? 32 : kRow >= 16 ? 8 : kRow >= 4 ? 2 : 1;  // that reduce a row together
  float* results = elements + kTile;
  SyncThreads();
#pragma unroll
  for (int j = 0; j < kPerLane; ++j)
    if (place + 32 * j < tile) elements[place + 32 * j] = x[j];
  SyncThreads();
  const int rows = tile / kRow, teams = static_cast<int>(blockDim.x) / kLanes;
  for (int first = 0; first < rows; first += teams) {  // all lanes of a warp take part in shuffles
    const int row = first + static_cast<int>(threadIdx.x) / kLanes;
    float mine = Reduction::Start();
    for (int i = static_cast<int>(threadIdx.x) % kLanes; row < rows && i < kRow; i += kLanes)
      mine = Reduction::Take(mine, elements[row * kRow + i]);
    mine = OverLanes<Reduction, kLanes>(mine);
    if (row < rows && threadIdx.x % kLanes == 0) results[row] = mine;
  }
  SyncThreads();
#pragma unroll
  for (int j = 0; j < kPerLane; ++j)
    of_row[j] = place + 32 * j < tile ? results[(place + 32 * j) / kRow] : 0.0f;
}

}  // namespace act
