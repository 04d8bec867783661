// Tiles of attention whose products are on tensor cores: of bfloat16, or of float32 with 10 bits of mantissa (tf32). Sums
// are float32. Tiles of operands stay in shared memory while they are needed, in their own type. T. Dao,
// FlashAttention-2, 2023.
#pragma once

#include "kernels/cuda/source/attention_tiles.h"

namespace act::cuda {

// Elements in shared memory, and products of them. The tensor cores' products have 32 bytes of terms.
template <class T>
struct TensorElement;

template <>
struct TensorElement<float> {
  using Stored = float;
  static constexpr int kVector = 4;  // in 16 bytes

  // Ten bits of mantissa, to nearest, halves away from zero. Tensor cores ignore the bits that are left.
  ACT_DEVICE static float Of(float x) { return x == x ? FromBits(FloatBits(x) + 0x1000u) : x; }
  ACT_DEVICE static uint4 Of(uint4 x) {
    const auto of = [](uint32_t bits) { return FloatBits(Of(FromBits(bits))); };
    return uint4{of(x.x), of(x.y), of(x.z), of(x.w)};
  }
  ACT_DEVICE static void StorePair(float* to, float first, float second) {
    to[0] = Of(first), to[1] = Of(second);
  }
  ACT_DEVICE static void AddProduct(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    AddTf32Product(d, a, b0, b1);
  }
};

template <>
struct TensorElement<BFloat16> {
  using Stored = uint16_t;
  static constexpr int kVector = 8;

  ACT_DEVICE static uint16_t Of(float x) { return FromFloat<BFloat16>(x).bits; }
  ACT_DEVICE static uint4 Of(uint4 x) { return x; }
  ACT_DEVICE static void StorePair(uint16_t* to, float first, float second) {
    *reinterpret_cast<uint32_t*>(to) = BFloat16Pair(first, second);
  }
  ACT_DEVICE static void AddProduct(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    AddBFloat16Product(d, a, b0, b1);
  }
};

// A block of 128 threads. A warp has 16 rows of a tile, and a thread 2 by 16 elements of these, as the tensor cores'
// sums have them (README.md). kChunks: of 64 columns, that operands have at most.
template <class T, int kChunks>
struct TensorTiles {
  static constexpr int kThreads = 128, kRows = 2, kColumns = 16, kTeam = 4;
  static constexpr int kColumnCycle = 4;  // columns c and c + kColumnCycle lie 16 apart
  using Element = TensorElement<T>;
  using Stored = typename Element::Stored;
  static constexpr int kTerms = 32 / sizeof(Stored);  // of a product
  static constexpr int kRowBytes = TensorRowBytes(sizeof(Stored), kChunks),
                       kScoreRowBytes = TensorRowBytes(sizeof(Stored), 1);

  struct Sums {
    float at[kRows][kColumns] = {};
  };
  ACT_DEVICE static int32_t Row(int r) { return FirstRow() + RowOfLane() + 8 * r; }
  ACT_DEVICE static int32_t Column(int c) { return TermOfLane() * 2 + ColumnsOn(c); }
  ACT_DEVICE static constexpr int32_t ColumnsOn(int c) { return c / 2 * 8 + c % 2; }
  ACT_DEVICE static int32_t ResultColumn(int c) { return Column(c); }

  // Two units in the last place and what the product rounds: less than factors with 8 or 11 bits are off.
  ACT_DEVICE static float Exponential(float x) { return ApproximatePowerOf2(x * 1.44269504f); }

  // 64 rows of a matrix, at a place in shared memory, with zeros outside of the matrix.
  template <class Form>
  struct Operand {
    MatrixRows<T> matrix;
    unsigned char* shared;

    ACT_DEVICE Operand(const MatrixRows<T>& of, int place)
        : matrix(of), shared(SharedBytes() + place * kAttentionTile * kRowBytes) {}
    // All threads of the block must call it, between BeginTake and EndTake.
    ACT_DEVICE void Take(int32_t row) const {
      constexpr int kVector = Form::kVector == 1 ? 1 : Element::kVector;
      constexpr int kPacks = kChunks * kAttentionTile / kVector, kStep = kThreads / kPacks;  // rows at a time
      static_assert(kThreads % kPacks == 0);
      const auto thread = static_cast<int32_t>(threadIdx.x);
      const int32_t first = thread / kPacks, c = thread % kPacks * kVector;
      const int32_t rows = c < matrix.columns ? matrix.rows - row - first : 0;
      const T* from = matrix.at + (row + first) * matrix.row + c;
      unsigned char* const to = shared + first * kRowBytes + c * sizeof(Stored);
#pragma unroll(kVector == 1 ? 4 : kAttentionTile / kStep)
      for (int r = 0; r < kAttentionTile; r += kStep) {
        if constexpr (kVector == 1)
          *reinterpret_cast<Stored*>(to + r * kRowBytes) =
              r < rows ? Element::Of(LoadFloat(from)) : Stored{0};
        else
          *reinterpret_cast<uint4*>(to + r * kRowBytes) =
              r < rows ? Element::Of(Load(reinterpret_cast<const uint4*>(from))) : uint4{0, 0, 0, 0};
        from += kStep * matrix.row;
      }
    }
  };
  ACT_DEVICE static void BeginTake() { SyncThreads(); }  // what was there may still be read
  ACT_DEVICE static void EndTake() { SyncThreads(); }

  // sums(i, j) += sum over all columns t of a(i, t) b(j, t)
  template <class Form>
  ACT_DEVICE static void AddDots(const Operand<Form>& a, const Operand<Form>& b, Sums& sums) {
    const unsigned char* const rows = a.shared + FirstRow() * kRowBytes;
#pragma unroll 4
    for (int t = 0; t < kChunks * kAttentionTile; t += kTerms) {
      uint32_t x[4];
      LoadMatrices(rows + t * sizeof(Stored), kRowBytes, x);
#pragma unroll
      for (int c = 0; c < kColumns; c += 4) {
        uint32_t w[4];
        LoadMatrices(b.shared + c * 4 * kRowBytes + t * sizeof(Stored), kRowBytes, w);
        Add(x, w[0], w[2], c, sums);
        Add(x, w[1], w[3], c + 2, sums);
      }
    }
  }

  // results(i, c) += sum over j of x(i, j) b(j, c). Sums have the places of factors, but for the order of terms.
  template <class Form, int kGroups>
  ACT_DEVICE static void AddRows(const Sums& x, const Operand<Form>& b, int32_t /*column: 0*/,
                                 Results<TensorTiles, kGroups>& results) {
#pragma unroll
    for (int t = 0; t < kAttentionTile; t += kTerms) {
      uint32_t a[4];
      if constexpr (kTerms == 16) {
        const int c = t / 4;
        a[0] = BFloat16Pair(x.at[0][c], x.at[0][c + 1]), a[1] = BFloat16Pair(x.at[1][c], x.at[1][c + 1]);
        a[2] = BFloat16Pair(x.at[0][c + 2], x.at[0][c + 3]),
        a[3] = BFloat16Pair(x.at[1][c + 2], x.at[1][c + 3]);
      } else {
        const int c = t / 4;
        const auto of = [](float factor) { return FloatBits(Element::Of(factor)); };
        a[0] = of(x.at[0][c]), a[1] = of(x.at[1][c]), a[2] = of(x.at[0][c + 1]), a[3] = of(x.at[1][c + 1]);
      }
      AddTerms(a, b.shared, t, results);
    }
  }

  // results(j, c) += sum over i of x(i, j) b(i, c)
  template <class Form, int kGroups>
  ACT_DEVICE static void AddColumns(const Sums& x, const Operand<Form>& b, int32_t /*column: 0*/,
                                    Results<TensorTiles, kGroups>& results) {
    unsigned char* const scores = SharedBytes() + kAttentionOperands * kAttentionTile * kRowBytes;
    SyncThreads();  // the last ones may still be read
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; c += 2)
        Element::StorePair(reinterpret_cast<Stored*>(scores + Row(r) * kScoreRowBytes) + Column(c),
                           x.at[r][c], x.at[r][c + 1]);
    SyncThreads();
    const unsigned char* const columns = scores + FirstRow() * sizeof(Stored);
#pragma unroll 4
    for (int t = 0; t < kAttentionTile; t += kTerms) {
      uint32_t a[4];
      if constexpr (kTerms == 16) {
        uint32_t x[4];
        LoadTransposedMatrices(columns + t * kScoreRowBytes, kScoreRowBytes, x);
        a[0] = x[0], a[1] = x[2], a[2] = x[1], a[3] = x[3];
      } else {
        const auto* const at =
            reinterpret_cast<const uint32_t*>(columns + (t + 2 * TermOfLane()) * kScoreRowBytes) +
            RowOfLane();
        const uint32_t* const next = at + kScoreRowBytes / 4;
        a[0] = at[0], a[1] = at[8], a[2] = next[0], a[3] = next[8];
      }
      AddTerms(a, b.shared, t, results);
    }
  }

  // Of 64 by kScoresPitch packs, where operands were.
  ACT_DEVICE static float4* Scores() { return reinterpret_cast<float4*>(SharedBytes()); }

 private:
  ACT_DEVICE static int32_t FirstRow() { return static_cast<int32_t>(threadIdx.x) / 32 * 16; }
  ACT_DEVICE static int32_t RowOfLane() { return static_cast<int32_t>(threadIdx.x) % 32 / 4; }
  ACT_DEVICE static int32_t TermOfLane() { return static_cast<int32_t>(threadIdx.x) % 4; }

  // Columns c and c + 1 of a thread's: a tile of 8.
  ACT_DEVICE static void Add(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c, Sums& sums) {
    float d[4] = {sums.at[0][c], sums.at[0][c + 1], sums.at[1][c], sums.at[1][c + 1]};
    Element::AddProduct(d, a, b0, b1);
    sums.at[0][c] = d[0], sums.at[0][c + 1] = d[1], sums.at[1][c] = d[2], sums.at[1][c + 1] = d[3];
  }
  // Rows t.. of b are terms. In tf32, a's terms come in the order that a thread has them as sums: 2 i and 2 i + 1 are
  // its terms i and i + 4.
  template <int kGroups>
  ACT_DEVICE static void AddTerms(const uint32_t (&a)[4], const unsigned char* b, int t,
                                  Results<TensorTiles, kGroups>& results) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      Sums& sums = results.groups[g];
      if constexpr (kTerms == 16) {
        const unsigned char* const rows = b + t * kRowBytes + g * kAttentionTile * sizeof(Stored);
#pragma unroll
        for (int c = 0; c < kColumns; c += 4) {
          uint32_t w[4];
          LoadTransposedMatrices(rows + c * 4 * sizeof(Stored), kRowBytes, w);
          Add(a, w[0], w[1], c, sums);
          Add(a, w[2], w[3], c + 2, sums);
        }
      } else {
        const auto* const row = reinterpret_cast<const uint32_t*>(b + (t + 2 * TermOfLane()) * kRowBytes) +
                                g * kAttentionTile + RowOfLane();
#pragma unroll
        for (int c = 0; c < kColumns; c += 2) Add(a, row[c * 4], row[kRowBytes / 4 + c * 4], c, sums);
      }
    }
  }
};

}  // namespace act::cuda
