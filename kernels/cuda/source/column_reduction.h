// Reductions whose results lie along the last axis of x, in two stages. A block takes a tile of columns
// and one part of the rows: thread (i, j) of a block takes kVector columns and every kRowLanes-th row. The
// second stage merges the parts of a column. Both merge in an order that the shape alone fixes.
//
// An `Op` says what is reduced:
//   kAtOnce                             how many x a thread loads before it adds the first: as registers allow
//   Acc                                 a column's state, which is copied as it is
//   Acc Start()                         of no element
//   void Add(Acc&, float x, float shift)
//   void Merge(Acc&, const Acc& later)
//   float Shift(int64_t column)         a number that helps Add; 0 where it needs none
//   void StorePart(int32_t part, int64_t column, const Acc&), Acc LoadPart(part, column)
//   void Finish(int64_t column, const Acc&)
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/column_reduction_parameters.h"
#include "kernels/cuda/source/floats.h"
#include "kernels/cuda/source/team.h"

namespace act::cuda {

// Merges what the threads of a block hold: thread (i, j) has the kVector columns from i * kVector on.
// Thread t gets column t of the tile, if there is one.
template <int kColumnLanes, int kRowLanes, int kVector, class Op>
ACT_DEVICE typename Op::Acc MergeRowLanes(const Op& op, typename Op::Acc (&acc)[kVector]) {
  using Acc = typename Op::Acc;
  constexpr int kThreads = kColumnLanes * kRowLanes;
  ACT_SHARED(Acc, shared, kThreads * kVector);
  const int t = threadIdx.x, j = t / kColumnLanes;
  for (int v = 0; v < kVector; ++v) shared[v * kThreads + t] = acc[v];
  for (int half = kRowLanes / 2; half > 0; half /= 2) {
    SyncThreads();
    if (j >= half) continue;
    for (int v = 0; v < kVector; ++v) {
      op.Merge(acc[v], shared[v * kThreads + t + half * kColumnLanes]);
      shared[v * kThreads + t] = acc[v];
    }
  }
  SyncThreads();
  return shared[t % kVector * kThreads + t / kVector];
}

// T: the type of x.
template <class T, int kColumnLanes, int kVector, class Op>
ACT_DEVICE void ReduceColumns(Op op, const ColumnReduction& p) {
  constexpr int kRowLanes = kColumnThreads / kColumnLanes, kAtOnce = Op::kAtOnce / kVector;
  const int32_t lane = threadIdx.x % kColumnLanes, j = threadIdx.x / kColumnLanes, block = blockIdx.x;
  const int32_t rest = block / p.tiles, tile = block - rest * p.tiles;
  const int32_t outer = rest / p.parts, part = rest - outer * p.parts;
  const int32_t c = (tile * kColumnLanes + lane) * kVector;
  const bool inside = c < p.length;
  const int64_t column = int64_t{outer} * p.length + c;
  const int32_t begin = part * p.part_rows;
  const int32_t end = !inside ? 0 : part + 1 < p.parts ? begin + p.part_rows : p.rows;
  const T* x = static_cast<const T*>(p.x) + (inside ? PlaceOf(p.outer, outer) + c : 0);

  typename Op::Acc acc[kVector];
  float shift[kVector] = {};
  for (int v = 0; v < kVector; ++v) {
    acc[v] = op.Start();
    if (begin < end) shift[v] = op.Shift(column + v);
  }
  // Several rows are loaded before the first is added, so that enough of memory is under way.
  int32_t r = begin + j;
  for (; r < end - (kAtOnce - 1) * kRowLanes; r += kAtOnce * kRowLanes) {
    Floats<kVector> pack[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) LoadFloats(x + PlaceOf(p.reduced, r + u * kRowLanes), pack[u]);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      for (int v = 0; v < kVector; ++v) op.Add(acc[v], pack[u].at[v], shift[v]);
  }
  for (; r < end; r += kRowLanes) {
    Floats<kVector> pack;
    LoadFloats(x + PlaceOf(p.reduced, r), pack);
    for (int v = 0; v < kVector; ++v) op.Add(acc[v], pack.at[v], shift[v]);
  }

  const typename Op::Acc merged = MergeRowLanes<kColumnLanes, kRowLanes>(op, acc);
  constexpr int32_t kTile = kColumnLanes * kVector;
  const int32_t t = threadIdx.x, mine = tile * kTile + t;
  if (t >= kTile || mine >= p.length) return;
  if (p.parts == 1)
    op.Finish(int64_t{outer} * p.length + mine, merged);
  else
    op.StorePart(part, int64_t{outer} * p.length + mine, merged);
}

// The second stage, for `columns` columns.
template <class Op>
ACT_DEVICE void MergeParts(Op op, int32_t parts, int64_t columns) {
  constexpr int kColumnLanes = kMergeColumns, kRowLanes = kMergeThreads / kColumnLanes;
  const int64_t column = int64_t{blockIdx.x} * kColumnLanes + threadIdx.x % kColumnLanes;
  const int32_t j = threadIdx.x / kColumnLanes;
  typename Op::Acc acc[1] = {op.Start()};
  if (column < columns)
    for (int32_t part = j; part < parts; part += kRowLanes) op.Merge(acc[0], op.LoadPart(part, column));
  const typename Op::Acc merged = MergeRowLanes<kColumnLanes, kRowLanes>(op, acc);
  if (j == 0 && column < columns) op.Finish(column, merged);
}

}  // namespace act::cuda
