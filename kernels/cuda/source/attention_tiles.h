// Products of tiles of 64 by 64, for attention. Operands come to shared memory, and sums stay in registers. FloatTiles
// multiplies in float32, TensorTiles (tensor_tiles.h) on tensor cores.
#pragma once

#include "kernels/cuda/source/attention_parameters.h"
#include "kernels/cuda/source/floats.h"

namespace act::cuda {

// Terms of a product that shared memory holds at a time.
inline constexpr int32_t kStagedTerms = 32;
// Of a row in shared memory, in packs of four floats. Rows begin in other banks than their neighbours.
inline constexpr int32_t kTermsPitch = kStagedTerms / 4 + 1, kColumnsPitch = kAttentionTile / 4 + 2,
                         kScoresPitch = kAttentionTile / 4 + 1;
inline constexpr int32_t kStagedPacks = kAttentionTile * kTermsPitch;
static_assert(kStagedTerms * kColumnsPitch <= kStagedPacks);

// Rows of a matrix in memory. The columns of a row are neighbours.
template <class T>
struct MatrixRows {
  const T* at;
  int64_t row;
  int32_t rows, columns;
};

// A tile of kRows x kColumns from (row, column) on goes to shared memory, with zeros outside of the matrix. kVector:
// elements that a thread may load at once.
template <int kThreads, int kVector, int kRows, int kColumns, int kPitch, class T>
ACT_DEVICE void Stage(const MatrixRows<T>& from, int32_t row, int32_t column, float4* to) {
  constexpr int kPacks = kColumns / kVector, kStep = kThreads / kPacks;  // rows at a time
  static_assert(kThreads % kPacks == 0);
  const auto thread = static_cast<int>(threadIdx.x);
  const int first = thread / kPacks, c = thread % kPacks * kVector;
  const T* at = from.at + (row + first) * from.row + column + c;
  const int rows = column + c < from.columns ? from.rows - row - first : 0;
  float* floats = reinterpret_cast<float*>(to) + first * kPitch * 4 + c;
#pragma unroll
  for (int r = 0; r < kRows; r += kStep) {
    Floats<kVector> x = {};
    if (r < rows) LoadFloats(at + r * from.row, x);
#pragma unroll
    for (int v = 0; v < kVector; ++v) floats[r * kPitch * 4 + v] = x.at[v];
  }
}

// A tile of results: kGroups times 64 columns.
template <class Tiles, int kGroups>
struct Results {
  typename Tiles::Sums groups[kGroups > 0 ? kGroups : 1];

  ACT_DEVICE void ScaleRow(int r, float factor) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int c = 0; c < Tiles::kColumns; ++c) groups[g].at[r][c] *= factor;
  }
};

// Writes a(x) for each of a thread's elements x to Tiles::Scores().
template <class Tiles, class A>
ACT_DEVICE void StoreScores(const typename Tiles::Sums& scores, const A& a) {
  auto* const floats = reinterpret_cast<float*>(Tiles::Scores());
  SyncThreads();  // the last one may still be read
#pragma unroll
  for (int r = 0; r < Tiles::kRows; ++r)
#pragma unroll
    for (int c = 0; c < Tiles::kColumns; ++c)
      floats[Tiles::Row(r) * kScoresPitch * 4 + Tiles::Column(c)] = a(scores.at[r][c]);
}

// A block of 256 threads. Each has 4 by 4 elements of a tile. Heads have any number of elements: products take 32 terms at
// a time, and a block may have some of the columns of a result.
struct FloatTiles {
  static constexpr int kThreads = 256, kRows = 4, kColumns = 4, kTeam = 16;
  static constexpr int kColumnCycle = 1;  // columns c and c + kColumnCycle lie 16 apart
  struct Sums {
    float at[kRows][kColumns] = {};
  };
  // Of a thread's element (r, c) in a tile of scores. The threads of a team have the same rows.
  ACT_DEVICE static int32_t Row(int r) { return static_cast<int32_t>(threadIdx.x) / 16 * 4 + r; }
  ACT_DEVICE static int32_t Column(int c) { return static_cast<int32_t>(threadIdx.x) % 16 + ColumnsOn(c); }
  ACT_DEVICE static constexpr int32_t ColumnsOn(int c) { return 16 * c; }  // from the first one
  // And of a result, whose rows are the same.
  ACT_DEVICE static int32_t ResultColumn(int c) { return static_cast<int32_t>(threadIdx.x) % 16 * 4 + c; }

  ACT_DEVICE static float Exponential(float x) { return expf(x); }

  // 64 rows of a matrix. Products take them to shared memory.
  template <class Form>
  struct Operand {
    MatrixRows<typename Form::T> matrix;
    int32_t row = 0;

    ACT_DEVICE Operand(const MatrixRows<typename Form::T>& of, int /*place*/) : matrix(of) {}
    ACT_DEVICE void Take(int32_t first_row) { row = first_row; }
  };
  ACT_DEVICE static void BeginTake() {}
  ACT_DEVICE static void EndTake() {}

  // sums(i, j) += sum over all columns t of a(i, t) b(j, t)
  template <class Form>
  ACT_DEVICE static void AddDots(const Operand<Form>& a, const Operand<Form>& b, Sums& sums) {
    for (int32_t t = 0; t < a.matrix.columns; t += kStagedTerms) {
      SyncThreads();  // what was staged before may still be read
      Stage<kThreads, Form::kVector, kAttentionTile, kStagedTerms, kTermsPitch>(a.matrix, a.row, t,
                                                                                StagedA());
      Stage<kThreads, Form::kVector, kAttentionTile, kStagedTerms, kTermsPitch>(b.matrix, b.row, t,
                                                                                StagedB());
      SyncThreads();
      AddStagedDots(sums);
    }
  }

  // results(i, c) += sum over j of x(i, j) b(j, column + c)
  template <class Form, int kGroups>
  ACT_DEVICE static void AddRows(const Sums& x, const Operand<Form>& b, int32_t column,
                                 Results<FloatTiles, kGroups>& results) {
    AddTimes<true>(x, b, column, results);
  }
  // results(j, c) += sum over i of x(i, j) b(i, column + c)
  template <class Form, int kGroups>
  ACT_DEVICE static void AddColumns(const Sums& x, const Operand<Form>& b, int32_t column,
                                    Results<FloatTiles, kGroups>& results) {
    AddTimes<false>(x, b, column, results);
  }

  // In shared memory: operands, which are 64 rows of 32 terms, or 32 terms of 64 columns (b); and 64 by 64 scores.
  ACT_DEVICE static float4* StagedA() {
    ACT_SHARED(float4, staged_a, kStagedPacks);
    return staged_a;
  }
  ACT_DEVICE static float4* StagedB() {
    ACT_SHARED(float4, staged_b, kStagedPacks);
    return staged_b;
  }
  ACT_DEVICE static float4* Scores() {
    ACT_SHARED(float4, staged_scores, kAttentionTile * kScoresPitch);
    return staged_scores;
  }

 private:
  ACT_DEVICE static void AddStagedDots(Sums& sums) {
    const float4 *const a = StagedA(), *const b = StagedB();
#pragma unroll 1
    for (int32_t t = 0; t < kStagedTerms / 4; ++t) {
      float4 x[kRows], w[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) x[i] = a[Row(i) * kTermsPitch + t];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) w[j] = b[Column(j) * kTermsPitch + t];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float sum = sums.at[i][j];
          sum = MulAdd(x[i].x, w[j].x, sum);
          sum = MulAdd(x[i].y, w[j].y, sum);
          sum = MulAdd(x[i].z, w[j].z, sum);
          sums.at[i][j] = MulAdd(x[i].w, w[j].w, sum);
        }
    }
  }

  template <bool kByRows, class Form, int kGroups>
  ACT_DEVICE static void AddTimes(const Sums& x, const Operand<Form>& b, int32_t column,
                                  Results<FloatTiles, kGroups>& results) {
    StoreScores<FloatTiles>(x, [](float factor) { return RoundedTo<typename Form::T>(factor); });
    for (int32_t first = 0; first < kAttentionTile && b.row + first < b.matrix.rows; first += kStagedTerms) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        SyncThreads();  // also for the scores
        Stage<kThreads, Form::kVector, kStagedTerms, kAttentionTile, kColumnsPitch>(
            b.matrix, b.row + first, column + g * kAttentionTile, StagedB());
        SyncThreads();
        if constexpr (kByRows)
          AddStagedRows(first, results.groups[g]);
        else
          AddStagedColumns(first, results.groups[g]);
      }
    }
  }

  // sums(i, c) += sum over staged terms t of scores(i, first + t) b(t, c)
  ACT_DEVICE static void AddStagedRows(int32_t first, Sums& sums) {
    const float4 *const scores = Scores(), *const b = StagedB();
    const int32_t column = static_cast<int32_t>(threadIdx.x) % 16;
#pragma unroll 2
    for (int32_t t = 0; t < kStagedTerms / 4; ++t) {
      float4 x[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) x[i] = scores[Row(i) * kScoresPitch + first / 4 + t];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float4 w = b[(4 * t + e) * kColumnsPitch + column];
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          AddProduct(e == 0 ? x[i].x : e == 1 ? x[i].y : e == 2 ? x[i].z : x[i].w, w, sums.at[i]);
      }
    }
  }
  // sums(j, c) += sum over staged terms t of scores(first + t, j) b(t, c)
  ACT_DEVICE static void AddStagedColumns(int32_t first, Sums& sums) {
    const float4 *const scores = Scores(), *const b = StagedB();
    const auto thread = static_cast<int32_t>(threadIdx.x);
#pragma unroll 4
    for (int32_t t = 0; t < kStagedTerms; ++t) {
      const float4 x = scores[(first + t) * kScoresPitch + thread / 16];
      const float4 w = b[t * kColumnsPitch + thread % 16];
      AddProduct(x.x, w, sums.at[0]);
      AddProduct(x.y, w, sums.at[1]);
      AddProduct(x.z, w, sums.at[2]);
      AddProduct(x.w, w, sums.at[3]);
    }
  }
  ACT_DEVICE static void AddProduct(float x, const float4& w, float (&sums)[kColumns]) {
    sums[0] = MulAdd(x, w.x, sums[0]);
    sums[1] = MulAdd(x, w.y, sums[1]);
    sums[2] = MulAdd(x, w.z, sums[2]);
    sums[3] = MulAdd(x, w.w, sums[3]);
  }
};

// Writes what lies within the matrix, from (row, column) on.
template <class Tiles, int kGroups, class T>
ACT_DEVICE void StoreResults(const Results<Tiles, kGroups>& results, int32_t row, int32_t column,
                             int32_t rows, int32_t columns, T* to, int64_t to_row) {
#pragma unroll
  for (int r = 0; r < Tiles::kRows; ++r) {
    const int32_t i = row + Tiles::Row(r);
    if (i >= rows) continue;
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int c = 0; c < Tiles::kColumns; ++c) {
        const int32_t j = column + g * kAttentionTile + Tiles::ResultColumn(c);
        if (j < columns) StoreFloat(to + i * to_row + j, results.groups[g].at[r][c]);
      }
  }
}

}  // namespace act::cuda
