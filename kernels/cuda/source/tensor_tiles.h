// The products of attention_tiles.h on tensor cores: factors have 10 bits of mantissa (tf32), which hold every bfloat16,
// and sums are float32.
#pragma once

#include "kernels/cuda/source/attention_tiles.h"

namespace act::cuda {

// x with 10 bits of mantissa, to nearest, halves away from zero. Tensor cores ignore the bits that are left.
ACT_DEVICE float RoundedToTf32(float x) { return x == x ? FromBits(FloatBits(x) + 0x1000u) : x; }

// A block of 128 threads. A warp has 16 rows of a tile, and a thread 2 by 16 elements of these, as
// AddTensorProduct (README.md) has them.
struct TensorTiles {
  static constexpr int kThreads = 128, kRows = 2, kColumns = 16, kTeam = 4;
  static constexpr int kColumnCycle = 4;  // columns c and c + kColumnCycle lie 16 apart
  struct Sums {
    float at[kRows][kColumns] = {};
  };
  ACT_DEVICE static int32_t Row(int r) { return FirstRow() + RowOfLane() + 8 * r; }
  ACT_DEVICE static int32_t Column(int c) { return c / 2 * 8 + TermOfLane() * 2 + c % 2; }
  ACT_DEVICE static int32_t ResultColumn(int c) { return Column(c); }

  template <class T>
  ACT_DEVICE static float Factor(float x) {
    if constexpr (std::is_same_v<T, float>)
      return RoundedToTf32(x);
    else
      return RoundedTo<T>(x);
  }

  ACT_DEVICE static void AddDots(const TileBuffers& tiles, Sums& sums) {
    const float* const a = FloatsOf(tiles.a) + (FirstRow() + RowOfLane()) * kTermsPitch * 4 + TermOfLane();
    const float* const b = FloatsOf(tiles.b) + RowOfLane() * kTermsPitch * 4 + TermOfLane();
#pragma unroll
    for (int t = 0; t < kStagedTerms; t += 8) {
      const float x[4] = {a[t], a[8 * kTermsPitch * 4 + t], a[t + 4], a[8 * kTermsPitch * 4 + t + 4]};
#pragma unroll
      for (int c = 0; c < kColumns; c += 2) {
        const float* const w = b + c * 4 * kTermsPitch * 4 + t;
        Add(x, w[0], w[4], c, sums);
      }
    }
  }

  ACT_DEVICE static void AddRows(const TileBuffers& tiles, int32_t first, Sums& sums) {
    const float* const a =
        FloatsOf(tiles.scores) + (FirstRow() + RowOfLane()) * kScoresPitch * 4 + first + TermOfLane();
#pragma unroll
    for (int t = 0; t < kStagedTerms; t += 8) {
      const float x[4] = {a[t], a[8 * kScoresPitch * 4 + t], a[t + 4], a[8 * kScoresPitch * 4 + t + 4]};
      AddStaged(x, t, tiles, sums);
    }
  }

  ACT_DEVICE static void AddColumns(const TileBuffers& tiles, int32_t first, Sums& sums) {
    const float* const a =
        FloatsOf(tiles.scores) + (first + TermOfLane()) * kScoresPitch * 4 + FirstRow() + RowOfLane();
#pragma unroll
    for (int t = 0; t < kStagedTerms; t += 8) {
      const float *const at = a + t * kScoresPitch * 4, *const later = at + 4 * kScoresPitch * 4;
      const float x[4] = {at[0], at[8], later[0], later[8]};
      AddStaged(x, t, tiles, sums);
    }
  }

 private:
  ACT_DEVICE static const float* FloatsOf(const float4* packs) {
    return reinterpret_cast<const float*>(packs);
  }
  ACT_DEVICE static int32_t FirstRow() { return static_cast<int32_t>(threadIdx.x) / 32 * 16; }
  ACT_DEVICE static int32_t RowOfLane() { return static_cast<int32_t>(threadIdx.x) % 32 / 4; }
  ACT_DEVICE static int32_t TermOfLane() { return static_cast<int32_t>(threadIdx.x) % 4; }

  // Columns c and c + 1 of a thread's: a tile of 8.
  ACT_DEVICE static void Add(const float (&x)[4], float w0, float w1, int c, Sums& sums) {
    float d[4] = {sums.at[0][c], sums.at[0][c + 1], sums.at[1][c], sums.at[1][c + 1]};
    const float w[2] = {w0, w1};
    AddTensorProduct(d, x, w);
    sums.at[0][c] = d[0], sums.at[0][c + 1] = d[1], sums.at[1][c] = d[2], sums.at[1][c + 1] = d[3];
  }
  // Terms t .. t + 7 of b, whose columns are those of the result.
  ACT_DEVICE static void AddStaged(const float (&x)[4], int32_t t, const TileBuffers& tiles, Sums& sums) {
    const float* const b = FloatsOf(tiles.b) + (t + TermOfLane()) * kColumnsPitch * 4 + RowOfLane();
#pragma unroll
    for (int c = 0; c < kColumns; c += 2) Add(x, b[c * 4], b[4 * kColumnsPitch * 4 + c * 4], c, sums);
  }
};

}  // namespace act::cuda
