// The gradient of attention (docs/runtime_ops.md). With p = softmax(scores), dp = dropout(do v^T), and c the slope of
// softcap:
//   dscore = p (dp - sum over keys of p dp), dv = dropout(p)^T do, dq = scale c dscore k, dk = scale c dscore^T q.
// A first pass makes the largest score, the sum of weights and that of p dp of each query. Then blocks of queries make
// dq, and blocks of keys dk and dv, apart: both at once would take more registers than let two blocks run. Sums have an
// order that the shape fixes. T. Dao, FlashAttention-2, 2023.
#pragma once

#include "kernels/cuda/source/attention.h"

namespace act::cuda {

// The matrices of one slice of q, and of the slice of k and v that it reads.
template <class Form>
struct GradientOperands {
  using T = typename Form::T;
  MatrixRows<T> q, k, v, d_o;

  ACT_DEVICE GradientOperands(const AttentionGradParameters& p, int32_t slice, int32_t kv_slice)
      : q(MatrixOf<T>(p.forward.q, p.forward.at_q, slice, p.forward.queries, p.forward.depth)),
        k(MatrixOf<T>(p.forward.k, p.forward.at_k, kv_slice, p.forward.keys, p.forward.depth)),
        v(MatrixOf<T>(p.forward.v, p.forward.at_v, kv_slice, p.forward.keys, p.forward.value_depth)),
        d_o(MatrixOf<T>(p.d_o, p.forward.at_o, slice, p.forward.queries, p.forward.value_depth)) {}
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
  ACT_TILE_BUFFERS(tiles);
  auto slice = static_cast<int32_t>(blockIdx.x);
  const int32_t query = (p.query_tiles.by - 1 - Split(p.query_tiles, slice)) * kAttentionTile;
  slice += all.first_kv_slice * p.group;
  const GradientOperands<Form> of(all, slice, slice / p.group);
  const ScoreRows<Form> rows(p, slice, query);
  RunningSoftmax<Tiles> softmax;
  float shift[Tiles::kRows] = {};
  const auto sees_none = [&] { return softmax.SeesNone(p, query); };
  ForKeyTiles(p, query, sees_none, [&](int32_t key) {
    typename Tiles::Sums x, dp;
    AddDots<Tiles, Form::kVector>(of.q, query, of.k, key, tiles, x);
    AddDots<Tiles, Form::kVector>(of.d_o, query, of.v, key, tiles, dp);
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

// Query i's, which may not exist.
ACT_DEVICE QueryStatistics StatisticsOf(const AttentionGradParameters& all, int32_t slice, int32_t i) {
  if (i >= all.forward.queries) return {0, 0, 0};
  const QueryStatistics* const from = StatisticsAt(all, slice) + i;
  return {Load(&from->largest), Load(&from->normalizer), Load(&from->shift)};
}

// A pair of a query and a key in the backward pass.
struct GradientPair {
  float probability, kept;  // kept: what dropout multiplies it by
  float slope, shift;       // of the score by the product; of the query's gradients
  bool passes;              // the score has a gradient
};

// Replaces products x of queries query.. of a slice and keys key.. by f(r, c, pair), or by 0 where there is no pair.
template <class Form, class F>
ACT_DEVICE void ForPairs(const AttentionGradParameters& all, int32_t slice, int32_t query, int32_t key,
                         typename Form::Tiles::Sums& x, const F& f) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  const ScoreRows<Form> rows(p, slice, query);
#pragma unroll
  for (int r = 0; r < Tiles::kRows; ++r) {
    const int32_t i = query + Tiles::Row(r);
    const KeyRange seen = rows.Seen(r);
    const QueryStatistics row = StatisticsOf(all, slice, i);
    const uint32_t keeps = rows.Keeps(r, key);
#pragma unroll
    for (int c = 0; c < Tiles::kColumns; ++c) {
      const int32_t j = key + Tiles::Column(c);
      const bool hidden = rows.Hidden(r, seen, j);
      GradientPair pair;
      const float score = rows.Score(r, j, hidden, x.at[r][c], &pair.slope);
      pair.slope *= p.scale;
      pair.probability = WeightOf(p, score, row.largest) * row.normalizer;
      pair.kept = rows.Kept(keeps, c);
      pair.shift = row.shift;
      pair.passes = !hidden || p.hidden_gradient;
      x.at[r][c] = i < p.queries && j < p.keys ? f(r, c, pair) : 0;
    }
  }
}

// For queries query.. of a slice and keys key..: probabilities, times what dropout keeps.
template <class Form>
ACT_DEVICE typename Form::Tiles::Sums KeptProbabilities(const AttentionGradParameters& all,
                                                        const GradientOperands<Form>& of, int32_t slice,
                                                        int32_t query, int32_t key,
                                                        const TileBuffers& tiles) {
  typename Form::Tiles::Sums x;
  AddDots<typename Form::Tiles, Form::kVector>(of.q, query, of.k, key, tiles, x);
  ForPairs<Form>(all, slice, query, key, x,
                 [](int, int, const GradientPair& pair) { return pair.probability * pair.kept; });
  return x;
}

// The gradients of the scores, or of the products that scores are made of.
template <class Form, bool kOfProducts>
ACT_DEVICE typename Form::Tiles::Sums ScoreGradients(const AttentionGradParameters& all,
                                                     const GradientOperands<Form>& of, int32_t slice,
                                                     int32_t query, int32_t key, const TileBuffers& tiles) {
  typename Form::Tiles::Sums x, dp;
  AddDots<typename Form::Tiles, Form::kVector>(of.q, query, of.k, key, tiles, x);
  AddDots<typename Form::Tiles, Form::kVector>(of.d_o, query, of.v, key, tiles, dp);
  ForPairs<Form>(all, slice, query, key, x, [&](int r, int c, const GradientPair& pair) {
    const float gradient = pair.probability * (dp.at[r][c] * pair.kept - pair.shift);
    return !pair.passes ? 0.0f : kOfProducts ? gradient * pair.slope : gradient;
  });
  return x;
}

template <class Form, int kGroups>
ACT_DEVICE void AttentionGradQueries(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  ACT_TILE_BUFFERS(tiles);
  auto slice = static_cast<int32_t>(blockIdx.x);
  const int32_t column = Split(all.query_columns, slice) * kGroups * kAttentionTile;
  const int32_t query = (p.query_tiles.by - 1 - Split(p.query_tiles, slice)) * kAttentionTile;
  slice += all.first_kv_slice * p.group;
  const GradientOperands<Form> of(all, slice, slice / p.group);
  Results<Tiles, kGroups> dq;
  const auto sees_none = [&] { return SeesNone<Tiles>(all, slice, query); };
  ForKeyTiles(p, query, sees_none, [&](int32_t key) {
    StoreFactors<Form>(ScoreGradients<Form, true>(all, of, slice, query, key, tiles), tiles);
    AddScoresTimes<Tiles, Form::kVector, true>(of.k, key, column, tiles, dq);
  });
  StoreResults<Tiles>(dq, query, column, p.queries, p.depth,
                      static_cast<typename Form::Result*>(all.dq) + MatrixAt(all.at_dq, slice),
                      all.at_dq.row);
}

// The gradient of k, or of v. A block has a tile of keys, and goes through the queries of all heads that read it.
template <class Form, int kGroups, bool kOfValues>
ACT_DEVICE void AttentionGradKeys(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  using Result = typename Form::Result;
  const AttentionParameters& p = all.forward;
  ACT_TILE_BUFFERS(tiles);
  auto kv_slice = static_cast<int32_t>(blockIdx.x);
  const int32_t column =
      Split(kOfValues ? all.value_columns : all.key_columns, kv_slice) * kGroups * kAttentionTile;
  const int32_t key = Split(all.key_tiles, kv_slice) * kAttentionTile;
  kv_slice += all.first_kv_slice;
  Results<Tiles, kGroups> sums;
  for (int32_t slice = kv_slice * p.group; slice < (kv_slice + 1) * p.group; ++slice) {
    const GradientOperands<Form> of(all, slice, kv_slice);
    for (int32_t query = 0; query < p.queries; query += kAttentionTile) {
      if (!ComputesTile<Tiles>(all, slice, query, key)) continue;
      if constexpr (kOfValues)
        StoreFactors<Form>(KeptProbabilities<Form>(all, of, slice, query, key, tiles), tiles);
      else
        StoreFactors<Form>(ScoreGradients<Form, true>(all, of, slice, query, key, tiles), tiles);
      AddScoresTimes<Tiles, Form::kVector, false>(kOfValues ? of.d_o : of.q, query, column, tiles, sums);
    }
  }
  const MatrixPlaces& places = kOfValues ? all.at_dv : all.at_dk;
  StoreResults<Tiles>(sums, key, column, p.keys, kOfValues ? p.value_depth : p.depth,
                      static_cast<Result*>(kOfValues ? all.dv : all.dk) + MatrixAt(places, kv_slice),
                      places.row);
}

// A part of the gradient of a tile of the bias: of a whole row or column of tiles, where the bias has one number for all
// queries or keys.
template <class Form>
ACT_DEVICE void AttentionGradBias(const AttentionGradParameters& all) {
  using Tiles = typename Form::Tiles;
  const AttentionParameters& p = all.forward;
  ACT_TILE_BUFFERS(tiles);
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
    const auto gradients = ScoreGradients<Form, false>(
        all, GradientOperands<Form>(all, slice, slice / p.group), slice, query, key, tiles);
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r)
#pragma unroll
      for (int c = 0; c < Tiles::kColumns; ++c) sums.at[r][c] += gradients.at[r][c];
  }
  StoreScores<Tiles>(sums, tiles, [](float x) { return x; });
  SyncThreads();
  const auto* const floats = reinterpret_cast<const float*>(tiles.scores);
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

template <class T>
ACT_DEVICE void MoveMatrices(const MoveMatricesParameters& p) {
  const auto item = static_cast<int32_t>(int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (item >= p.items) return;
  int32_t slice = item;
  const int32_t column = Split(p.columns, slice), row = Split(p.rows, slice);
  StoreFloat(static_cast<T*>(p.to) + MatrixAt(p.at, slice + p.first_slice) + row * p.at.row + column,
             LoadFloat(static_cast<const T*>(p.from) + item));
}

}  // namespace act::cuda
