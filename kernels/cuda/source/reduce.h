// Sums, means and maxima. Sums are in double throughout, as in the reference kernel: a card that trains
// converts and adds several times as many numbers as its memory delivers.
#pragma once

#include "kernels/cuda/source/column_reduction.h"
#include "kernels/cuda/source/reduce_parameters.h"

namespace act::cuda {

// Ops, for column_reduction.h.
struct ReduceOp {
  static constexpr int kAtOnce = 16;
  const ReduceResult& result;

  ACT_DEVICE float Shift(int64_t) const { return 0; }
  ACT_DEVICE void StorePart(int32_t part, int64_t column, double acc) const {
    Store(result.parts + int64_t{part} * result.columns + column, acc);
  }
  ACT_DEVICE double LoadPart(int32_t part, int64_t column) const {
    return Load(result.parts + int64_t{part} * result.columns + column);
  }
};

struct SumOp : ReduceOp {
  using Acc = double;
  ACT_DEVICE double Start() const { return 0; }
  ACT_DEVICE void Add(double& acc, float x, float) const { acc += x; }
  ACT_DEVICE void Merge(double& acc, double later) const { acc += later; }
  ACT_DEVICE void Finish(int64_t column, double acc) const {
    Store(result.y + column, static_cast<float>(acc / result.divisor));
  }
};

// NaN wins.
struct MaxOp : ReduceOp {
  using Acc = float;
  ACT_DEVICE float Start() const { return -kInfinity; }
  ACT_DEVICE void Add(float& acc, float x, float) const { acc = x > acc || x != x ? x : acc; }
  ACT_DEVICE void Merge(float& acc, float later) const { Add(acc, later, 0); }
  ACT_DEVICE void Finish(int64_t column, float acc) const { Store(result.y + column, acc); }
};

template <class Op, class T, int kColumnLanes, int kVector>
ACT_DEVICE void ReduceColumns(const ReduceColumnsParameters& p) {
  ReduceColumns<T, kColumnLanes, kVector>(Op{{p.result}}, p.columns);
}

template <class Op>
ACT_DEVICE void MergeReductions(const MergePartsParameters& p) {
  MergeParts(Op{{p.result}}, p.parts, p.result.columns);
}

// A team for each part of each result.
template <class Op, class T, int kTeam, int kVector>
ACT_DEVICE void ReduceRows(const ReduceRowsParameters& p) {
  constexpr int kTeams = kRowThreads / kTeam, kAtOnce = kTeam < 32 ? 1 : Op::kAtOnce / kVector;
  const Op op{{p.result}};
  const int32_t lane = threadIdx.x % kTeam, team = blockIdx.x * kTeams + threadIdx.x / kTeam;
  const int32_t i = team / p.parts, part = team - i * p.parts;
  const bool inside = i < p.result.columns;
  const int32_t begin = part * p.part_count;
  const int32_t end = !inside ? 0 : part + 1 < p.parts ? begin + p.part_count : p.count;
  const T* x = static_cast<const T*>(p.x) + (inside ? PlaceOf(p.kept, i) : 0);

  typename Op::Acc acc = op.Start();
  constexpr int32_t kStep = kTeam * kVector;
  int32_t j = begin + lane * kVector;
  for (; j < end - (kAtOnce - 1) * kStep; j += kAtOnce * kStep) {
    Floats<kVector> pack[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) LoadFloats(x + PlaceOf(p.reduced, j + u * kStep), pack[u]);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      for (int v = 0; v < kVector; ++v) op.Add(acc, pack[u].at[v], 0);
  }
  for (; j < end; j += kStep) {
    Floats<kVector> pack;
    LoadFloats(x + PlaceOf(p.reduced, j), pack);
    for (int v = 0; v < kVector; ++v) op.Add(acc, pack.at[v], 0);
  }
  acc = OverTeam<kTeam>(acc, [op](typename Op::Acc a, typename Op::Acc b) {
    op.Merge(a, b);
    return a;
  });
  if (lane > 0 || !inside) return;
  if (p.parts == 1)
    op.Finish(i, acc);
  else
    op.StorePart(part, i, acc);
}

}  // namespace act::cuda
