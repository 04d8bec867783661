// Attention (docs/runtime_ops.md): o = dropout(softmax(scores)) v. A block has a tile of queries of one head, and goes
// through its keys, tile by tile. So no tensor of queries times keys exists. T. Dao et al., FlashAttention, 2022.
#pragma once

#include "kernels/cuda/source/attention_scores.h"

namespace act::cuda {

// kGroups: a block's columns of the result, in multiples of 64.
template <class Form, int kGroups>
ACT_DEVICE void Attention(const AttentionParameters& p) {
  using Tiles = typename Form::Tiles;
  using T = typename Form::T;
  using Operand = typename Tiles::template Operand<Form>;
  auto slice = static_cast<int32_t>(blockIdx.x);
  const int32_t column = Split(p.column_tiles, slice) * kGroups * kAttentionTile;
  // With `causal`, the last queries see most: they begin first.
  const int32_t query = (p.query_tiles.by - 1 - Split(p.query_tiles, slice)) * kAttentionTile;
  const int32_t kv_slice = slice / p.group;
  Operand q(MatrixOf<T>(p.q, p.at_q, slice, p.queries, p.depth), 0);
  Operand k(MatrixOf<T>(p.k, p.at_k, kv_slice, p.keys, p.depth), 1);
  Operand v(MatrixOf<T>(p.v, p.at_v, kv_slice, p.keys, p.value_depth), 2);
  const ScoreRows<Form> rows(p, slice, query);
  RunningSoftmax<Tiles> softmax;
  Results<Tiles, kGroups> o;
  const auto sees_none = [&] { return softmax.SeesNone(p, query); };
  q.Take(query);
  ForKeyTiles(p, query, sees_none, [&](int32_t key) {
    Tiles::BeginTake();
    k.Take(key);
    v.Take(key);
    Tiles::EndTake();
    typename Tiles::Sums x;  // products, scores, weights
    Tiles::AddDots(q, k, x);
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r) {
      rows.ToScores(r, key, x.at[r]);
      o.ScaleRow(r, softmax.Raise(r, x.at[r]));
      softmax.ToWeights(p, r, key, x.at[r]);
      const uint32_t keeps = rows.Keeps(r, key);
#pragma unroll
      for (int c = 0; c < Tiles::kColumns; ++c) x.at[r][c] *= rows.Kept(keeps, c);
    }
    Tiles::AddRows(x, v, column, o);
  });
#pragma unroll
  for (int r = 0; r < Tiles::kRows; ++r) o.ScaleRow(r, softmax.Normalizer(p, r));
  StoreResults<Tiles>(o, query, column, p.queries, p.value_depth,
                      static_cast<typename Form::Result*>(p.o) + MatrixAt(p.at_o, slice), p.at_o.row);
}

}  // namespace act::cuda
