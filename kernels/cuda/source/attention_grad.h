// The gradient of attention (docs/runtime_ops.md). With p = softmax(scores), dp = dropout(do v^T), and c the slope of
// softcap:
//   dscore = p (dp - sum over keys of p dp), dv = dropout(p)^T do, dq = scale c dscore k, dk = scale c dscore^T q.
// A first pass makes the largest score, the sum of weights and that of p dp of each query. Then blocks of queries make
// dq, and blocks of keys dk and dv: both at once, unless they take more registers than let two blocks run. Sums have an
// order that the shape fixes. T. Dao, FlashAttention-2, 2023.
#pragma once

#include "kernels/cuda/source/attention.h"

namespace act::cuda {

// The matrices of one slice of q, and of the slice of k and v that it reads.
template <class Form>
struct GradientOperands {
  using T = typename Form::T;
  using Tiles = typename Form::Tiles;
  typename Tiles::template Operand<Form> q, k, v, d_o;

  ACT_DEVICE GradientOperands(const AttentionGradParameters& p, int32_t slice, int32_t kv_slice)
      : q(MatrixOf<T>(p.forward.q, p.forward.at_q, slice, p.forward.queries, p.forward.depth), 0),
        k(MatrixOf<T>(p.forward.k, p.forward.at_k, kv_slice, p.forward.keys, p.forward.depth), 1),
        v(MatrixOf<T>(p.forward.v, p.forward.at_v, kv_slice, p.forward.keys, p.forward.value_depth), 2),
        d_o(MatrixOf<T>(p.d_o, p.forward.at_o, slice, p.forward.queries, p.forward.value_depth), 3) {}

  ACT_DEVICE void TakeQueries(int32_t query) {
    q.Take(query);
    d_o.Take(query);
  }
  ACT_DEVICE void TakeKeys(int32_t key) {
    k.Take(key);
    v.Take(key);
  }
  // Products of the queries that were taken with keys key..: of q and k, and of the gradient and v.
  ACT_DEVICE void AddProducts(int32_t key, typename Tiles::Sums& x, typename Tiles::Sums& dp) {
    Tiles::BeginTake();
    TakeKeys(key);
    Tiles::EndTake();
    Tiles::AddDots(q, k, x);
    Tiles::AddDots(d_o, v, dp);
  }
};

// The statistics of a launch's query.
ACT_DEVICE QueryStatistics* StatisticsAt(const AttentionGradParameters& p, int32_t slice) {
  return p.statistics + int64_t{slice - p.first_kv_slice * p.forward.group} * p.forward.queries;
}

// Whether a query of the tile sees no key. All threads of the block must ask.
template <class Tiles>
ACT_DEVICE bool SeesNone(const AttentionGradParameters& p, int32_t slice, int32_t query) {
  const int32_t i = query + static_cast<int32_t>(threadIdx.x);
  return AnyOfBlock<Tiles>(static_cast<int32_t>(threadIdx.x) < kAttentionTile && i < p.forward.queries &&
                           Load(&(StatisticsAt(p, slice) + i)->largest) == -kInfinity);
}
// Whether ForKeyTiles has the tile.
template <class Tiles>
ACT_DEVICE bool ComputesTile(const AttentionGradParameters& p, int32_t slice, int32_t query, int32_t key) {
  if (HasTile(KeysOfTile(p.forward, query), key)) return true;
  return p.forward.empty == EmptyRow::kMean && SeesNone<Tiles>(p, slice, query);
}

template <class Form>
ACT_DEVICE void AttentionStatistics(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  auto slice = static_cast<int32_t>(blockIdx.x);
  const int32_t query = (p.query_tiles.by - 1 - Split(p.query_tiles, slice)) * kAttentionTile;
  slice += all.first_kv_slice * p.group;
  GradientOperands<Form> of(all, slice, slice / p.group);
  const ScoreRows<Form> rows(p, slice, query);
  RunningSoftmax<Tiles> softmax;
  float shift[Tiles::kRows] = {};
  const auto sees_none = [&] { return softmax.SeesNone(p, query); };
  of.TakeQueries(query);
  ForKeyTiles(p, query, sees_none, [&](int32_t key) {
    typename Tiles::Sums x, dp;
    of.AddProducts(key, x, dp);
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r) {
      rows.ToScores(r, key, x.at[r]);
      shift[r] *= softmax.Raise(r, x.at[r]);
      softmax.ToWeights(p, r, key, x.at[r]);
      const uint32_t keeps = rows.Keeps(r, key);
#pragma unroll
      for (int c = 0; c < Tiles::kColumns; ++c)
        if (x.at[r][c] != 0) shift[r] += x.at[r][c] * rows.Kept(keeps, c) * dp.at[r][c];
    }
  });
#pragma unroll
  for (int r = 0; r < Tiles::kRows; ++r) {
    const float normalizer = softmax.Normalizer(p, r), sum = SumOverTeam<Tiles::kTeam>(shift[r]);
    const int32_t i = query + Tiles::Row(r);
    if (i >= p.queries || threadIdx.x % Tiles::kTeam != 0) continue;
    QueryStatistics* const to = StatisticsAt(all, slice) + i;
    Store(&to->largest, softmax.largest[r]);
    Store(&to->normalizer, normalizer);
    Store(&to->shift, sum * normalizer);
  }
}

// Of a thread's rows of a tile, queries query.. of a slice.
template <class Tiles>
struct RowStatistics {
  QueryStatistics of[Tiles::kRows];

  ACT_DEVICE RowStatistics(const AttentionGradParameters& all, int32_t slice, int32_t query) {
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r) {
      const int32_t i = query + Tiles::Row(r);
      of[r] = {0, 0, 0};
      if (i >= all.forward.queries) continue;
      const QueryStatistics* const from = StatisticsAt(all, slice) + i;
      of[r] = {Load(&from->largest), Load(&from->normalizer), Load(&from->shift)};
    }
  }
};

// For queries query.. of a slice and keys key..: products of these become probabilities, times what dropout keeps; and
// products of the gradient and values become gradients of scores, or of the products that scores are made of.
template <class Form, bool kOfProducts>
ACT_DEVICE void ToPairs(const AttentionGradParameters& all,
                        const RowStatistics<typename Form::Tiles>& statistics, int32_t slice, int32_t query,
                        int32_t key, typename Form::Tiles::Sums& x, typename Form::Tiles::Sums& dp) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  const ScoreRows<Form> rows(p, slice, query);
  const int32_t first = key + Tiles::Column(0);
#pragma unroll
  for (int r = 0; r < Tiles::kRows; ++r) {
    const KeyRange seen = rows.Seen(r, first);
    const QueryStatistics& row = statistics.of[r];
    const WeightsOfRow<Tiles> weights(p, row.largest);
    const int32_t left = query + Tiles::Row(r) < p.queries ? p.keys - first : 0;
    const uint32_t keeps = rows.Keeps(r, key);
#pragma unroll
    for (int c = 0; c < Tiles::kColumns; ++c) {
      const int32_t on = Tiles::ColumnsOn(c);
      const bool exists = on < left, hidden = rows.Hidden(r, seen, first, on);
      float slope;  // of the score by the product
      const float score = rows.Score(r, first + on, hidden, x.at[r][c], &slope);
      const float probability = weights.Of(score) * row.normalizer;
      const float kept = rows.Kept(keeps, c), gradient = probability * (dp.at[r][c] * kept - row.shift);
      x.at[r][c] = exists ? probability * kept : 0;
      dp.at[r][c] = !exists || (hidden && !p.hidden_gradient) ? 0.0f
                    : kOfProducts                             ? gradient * (slope * p.scale)
                                                              : gradient;
    }
  }
}

template <class Form, int kGroups>
ACT_DEVICE void AttentionGradQueries(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  auto slice = static_cast<int32_t>(blockIdx.x);
  const int32_t column = Split(all.query_columns, slice) * kGroups * kAttentionTile;
  const int32_t query = (p.query_tiles.by - 1 - Split(p.query_tiles, slice)) * kAttentionTile;
  slice += all.first_kv_slice * p.group;
  GradientOperands<Form> of(all, slice, slice / p.group);
  const RowStatistics<Tiles> statistics(all, slice, query);
  Results<Tiles, kGroups> dq;
  const auto sees_none = [&] { return SeesNone<Tiles>(all, slice, query); };
  of.TakeQueries(query);
  ForKeyTiles(p, query, sees_none, [&](int32_t key) {
    typename Tiles::Sums x, dp;
    of.AddProducts(key, x, dp);
    ToPairs<Form, true>(all, statistics, slice, query, key, x, dp);
    Tiles::AddRows(dp, of.k, column, dq);
  });
  StoreResults<Tiles>(dq, query, column, p.queries, p.depth,
                      static_cast<typename Form::Result*>(all.dq) + MatrixAt(all.at_dq, slice),
                      all.at_dq.row);
}

// The gradients of k and v, or one of them: columns of the other are none. A block has a tile of keys, and goes through
// the queries of all heads that read it.
template <class Form, int kKeyGroups, int kValueGroups>
ACT_DEVICE void AttentionGradKeys(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  using Result = typename Form::Result;
  constexpr int kGroups = kKeyGroups > kValueGroups ? kKeyGroups : kValueGroups;
  const AttentionParameters& p = all.forward;
  auto kv_slice = static_cast<int32_t>(blockIdx.x);
  const int32_t column =
      Split(kKeyGroups > 0 ? all.key_columns : all.value_columns, kv_slice) * kGroups * kAttentionTile;
  const int32_t key = Split(all.key_tiles, kv_slice) * kAttentionTile;
  kv_slice += all.first_kv_slice;
  Results<Tiles, kKeyGroups> dk;
  Results<Tiles, kValueGroups> dv;
  for (int32_t slice = kv_slice * p.group; slice < (kv_slice + 1) * p.group; ++slice) {
    GradientOperands<Form> of(all, slice, kv_slice);
    Tiles::BeginTake();
    of.TakeKeys(key);
    for (int32_t query = 0; query < p.queries; query += kAttentionTile) {
      if (!ComputesTile<Tiles>(all, slice, query, key)) continue;
      const RowStatistics<Tiles> statistics(all, slice, query);
      Tiles::BeginTake();
      of.TakeQueries(query);
      Tiles::EndTake();
      typename Tiles::Sums x, dp;
      Tiles::AddDots(of.q, of.k, x);
      if constexpr (kKeyGroups > 0) Tiles::AddDots(of.d_o, of.v, dp);
      ToPairs<Form, true>(all, statistics, slice, query, key, x, dp);
      if constexpr (kValueGroups > 0) Tiles::AddColumns(x, of.d_o, column, dv);
      if constexpr (kKeyGroups > 0) Tiles::AddColumns(dp, of.q, column, dk);
    }
  }
  const auto store = [&](const auto& results, int32_t columns, void* to, const MatrixPlaces& places) {
    StoreResults<Tiles>(results, key, column, p.keys, columns,
                        static_cast<Result*>(to) + MatrixAt(places, kv_slice), places.row);
  };
  if constexpr (kKeyGroups > 0) store(dk, p.depth, all.dk, all.at_dk);
  if constexpr (kValueGroups > 0) store(dv, p.value_depth, all.dv, all.at_dv);
}

// A part of the gradient of a tile of the bias: of a whole row or column of tiles, where the bias has one number for all
// queries or keys.
template <class Form>
ACT_DEVICE void AttentionGradBias(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  auto part = static_cast<int32_t>(blockIdx.x);
  const int64_t matrix = PlaceOf(all.bias_slices, Split(all.bias_matrices, part));
  const int32_t query_tile = Split(all.bias_query_tiles, part), key_tile = Split(all.bias_key_tiles, part);
  typename Tiles::Sums sums;
  for (int32_t i = part * all.part_items; i < (part + 1) * all.part_items && i < all.items; ++i) {
    int32_t slice = i;
    const int32_t query = (query_tile + Split(all.item_query_tiles, slice)) * kAttentionTile;
    const int32_t key = (key_tile + Split(all.item_key_tiles, slice)) * kAttentionTile;
    slice += all.first_kv_slice * p.group;
    if (PlaceOf(p.at_bias.slices, slice) != matrix) continue;
    if (!ComputesTile<Tiles>(all, slice, query, key)) continue;
    GradientOperands<Form> of(all, slice, slice / p.group);
    const RowStatistics<Tiles> statistics(all, slice, query);
    Tiles::BeginTake();
    of.TakeQueries(query);
    typename Tiles::Sums x, dp;
    of.AddProducts(key, x, dp);
    ToPairs<Form, false>(all, statistics, slice, query, key, x, dp);
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r)
#pragma unroll
      for (int c = 0; c < Tiles::kColumns; ++c) sums.at[r][c] += dp.at[r][c];
  }
  StoreScores<Tiles>(sums, [](float x) { return x; });
  SyncThreads();
  const auto* const floats = reinterpret_cast<const float*>(Tiles::Scores());
  constexpr int32_t kPitch = kScoresPitch * 4;
  // A row or column of the tile that stands for all is their sum.
  const bool all_queries = p.at_bias.row == 0, all_keys = p.at_bias.column == 0;
  const int32_t rows = all_queries ? 1 : kAttentionTile, columns = all_keys ? 1 : kAttentionTile;
  const int32_t summed_rows = all_queries ? kAttentionTile : 1,
                summed_columns = all_keys ? kAttentionTile : 1;
  float* const to = all.d_bias + part * all.bias_elements + matrix;
  for (auto e = static_cast<int32_t>(threadIdx.x); e < rows * columns; e += Tiles::kThreads) {
    const int32_t row = e / columns, column = e % columns;
    const int32_t i = query_tile * kAttentionTile + row, j = key_tile * kAttentionTile + column;
    if ((!all_queries && i >= p.queries) || (!all_keys && j >= p.keys)) continue;
    float* const place = to + i * p.at_bias.row + j * p.at_bias.column;
    float sum = all.goes_on ? Load(place) : 0;
    for (int32_t r = row; r < row + summed_rows; ++r)
      for (int32_t c = column; c < column + summed_columns; ++c) sum += floats[r * kPitch + c];
    Store(place, sum);
  }
}

// An item is a pack of kVector elements, which lie side by side in both places.
template <class T, int kVector>
ACT_DEVICE void MoveMatrices(const MoveMatricesParameters& p) {
  const auto item = static_cast<int32_t>(int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (item >= p.items) return;
  int32_t slice = item;
  const int32_t column = Split(p.columns, slice) * kVector, row = Split(p.rows, slice);
  T* const to = static_cast<T*>(p.to) + MatrixAt(p.at, slice + p.first_slice) + row * p.at.row + column;
  const T* const from = static_cast<const T*>(p.from) + int64_t{item} * kVector;
  if constexpr (kVector == 1)
    StoreFloat(to, LoadFloat(from));
  else
    Store(reinterpret_cast<uint4*>(to), Load(reinterpret_cast<const uint4*>(from)));
}

}  // namespace act::cuda
