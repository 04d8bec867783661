#include "kernels/cpu/tile_pairs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/instructions.h"
#include "kernels/cpu/pair_terms-inl.h"

namespace act {

#if defined(__x86_64__)
namespace {

#define ACT_TARGET_TILES __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

constexpr int64_t kSide = 16;  // rows of a tile, words of a row
constexpr int64_t kTileWords = kSide * kSide, kRowBytes = kSide * 4;

// Compilers do not know that the instructions for tiles read memory.
inline void StoresAreDone() { __asm__ volatile("" ::: "memory"); }

// ---- Packing

template <class T>
ACT_TARGET_BF16 void PackRows(const T* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                              int64_t pair, uint32_t* rows) {
  const int64_t pairs = (terms + 1) / 2;
  for (int64_t k = 0; k < pairs; k += kSide) {
    const int64_t here = std::min(kSide, pairs - k);
    for (int64_t at = 0; at < count; at += kSide) {
      const __mmask16 lanes = FirstLanes(count - at);
      __m512i v[kSide];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kSide; ++i) {
        v[i] = _mm512_setzero_si512();
        if (i >= here) continue;
        const T* first = from + (k + i) * 2 * distance + at;
        const T* second = 2 * (k + i) + 1 < terms ? first + distance : nullptr;
        v[i] = Interleaved(LoadTerm(first, 0, lanes), LoadTerm(second, 0, lanes));
      }
      TransposeWords(v);
      uint32_t* to = rows + at * depth + pair + k;
      const int64_t whole = std::min(kSide, count - at);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kSide; ++i)
        if (i < whole) _mm512_mask_storeu_epi32(to + i * depth, FirstLanes(here), v[i]);
    }
  }
}

// ---- Multiplying

// Tiles 0 to 3 are sums, 4 and 5 of the left operand, 6 and 7 of the right one.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {kRowBytes, kRowBytes, kRowBytes, kRowBytes,
                            kRowBytes, kRowBytes, kRowBytes, kRowBytes};
  uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};
constexpr TileShapes kShapes;

ACT_TARGET_TILES void ShapeTiles() {
  StoresAreDone();
  _tile_loadconfig(&kShapes);
}
ACT_TARGET_TILES void ReleaseTiles() { _tile_release(); }

// What is not a whole tile in memory passes through these.
struct alignas(64) Staging {
  uint32_t tile[4][kTileWords];
};

// `rows` x `columns` words of a tile.
ACT_TARGET_TILES void StageIn(const void* from, int64_t from_row, int64_t rows, int64_t columns,
                              uint32_t* tile) {
  const auto* words = static_cast<const uint32_t*>(from);
  const __mmask16 lanes = FirstLanes(columns);
  for (int64_t r = 0; r < kSide; ++r)
    _mm512_store_si512(tile + r * kSide, r < rows ? _mm512_maskz_loadu_epi32(lanes, words + r * from_row)
                                                  : _mm512_setzero_si512());
}

// Adds 16 pairs to kRowTiles x kColumnTiles tiles of sums.
template <int kRowTiles, int kColumnTiles>
ACT_TARGET_TILES inline void AddTiles(const uint32_t* a, int64_t a_tile, int64_t a_row, const uint32_t* b,
                                      int64_t b_tile, int64_t b_row, Ahead& ahead) {
  const auto ask = [&ahead] { Prefetch(ahead); };
  _tile_loadd(4, a, a_row);
  _tile_loadd(6, b, b_row);
  ask();
  _tile_dpbf16ps(0, 4, 6);
  ask();
  if constexpr (kColumnTiles > 1) {
    _tile_loadd(7, b + b_tile, b_row);
    _tile_dpbf16ps(1, 4, 7);
  }
  ask();
  if constexpr (kRowTiles > 1) {
    _tile_loadd(5, a + a_tile, a_row);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kColumnTiles > 1) _tile_dpbf16ps(3, 5, 7);
  }
  ask();
}

template <int kRowTiles, int kColumnTiles>
ACT_TARGET_TILES void MultiplyTiles(const uint32_t* left, int64_t depth, const uint32_t* right,
                                    std::span<const SlotRun> runs, float* c, int64_t c_row, int64_t rows,
                                    int64_t columns, bool add, Ahead& ahead) {
  Staging staging;
  const auto rows_of = [rows](int t) { return std::min(kSide, rows - t / 2 * kSide); };
  const auto columns_of = [columns](int t) { return std::min(kSide, columns - t % 2 * kSide); };
  const auto whole = [&](int t) { return rows_of(t) == kSide && columns_of(t) == kSide; };
  const auto sums = [&](int t) { return c + t / 2 * kSide * c_row + t % 2 * kSide; };
  const auto row_bytes = [&](int t) { return whole(t) ? c_row * 4 : kRowBytes; };
  const auto begin = [&](int t) -> const void* {
    if (whole(t)) return sums(t);
    StageIn(sums(t), c_row, rows_of(t), columns_of(t), staging.tile[t]);
    return staging.tile[t];
  };
  constexpr bool kFour = kRowTiles > 1 && kColumnTiles > 1;
  const void *s0 = nullptr, *s1 = nullptr, *s2 = nullptr, *s3 = nullptr;
  if (add) {
    s0 = begin(0);
    if constexpr (kColumnTiles > 1) s1 = begin(1);
    if constexpr (kRowTiles > 1) s2 = begin(2);
    if constexpr (kFour) s3 = begin(3);
  }
  StoresAreDone();
  if (add) {
    _tile_loadd(0, s0, row_bytes(0));
    if constexpr (kColumnTiles > 1) _tile_loadd(1, s1, row_bytes(1));
    if constexpr (kRowTiles > 1) _tile_loadd(2, s2, row_bytes(2));
    if constexpr (kFour) _tile_loadd(3, s3, row_bytes(3));
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  constexpr int64_t kWidth = kColumnTiles * kSide;
  for (const SlotRun& run : runs) {
    const uint32_t *a = left + run.a, *b = right + run.b * kWidth;
    int64_t k = 0;
    for (; k + kSide <= run.slots; k += kSide, a += kSide, b += kSide * kWidth)
      AddTiles<kRowTiles, kColumnTiles>(a, kSide * depth, depth * 4, b, kSide, kWidth * 4, ahead);
    const int64_t rest = run.slots - k;
    if (rest == 0) continue;
    // Zeros take the place of pairs that are not the run's. They are zero in both operands, because
    // what lies there need not be finite.
    StageIn(a, depth, kSide, rest, staging.tile[0]);
    if constexpr (kRowTiles > 1) StageIn(a + kSide * depth, depth, kSide, rest, staging.tile[1]);
    StageIn(b, kWidth, rest, kSide, staging.tile[2]);
    if constexpr (kColumnTiles > 1) StageIn(b + kSide, kWidth, rest, kSide, staging.tile[3]);
    StoresAreDone();
    AddTiles<kRowTiles, kColumnTiles>(staging.tile[0], kTileWords, kRowBytes, staging.tile[2], kTileWords,
                                      kRowBytes, ahead);
  }
  const auto end = [&](int t) -> void* { return whole(t) ? static_cast<void*>(sums(t)) : staging.tile[t]; };
  _tile_stored(0, end(0), row_bytes(0));
  if constexpr (kColumnTiles > 1) _tile_stored(1, end(1), row_bytes(1));
  if constexpr (kRowTiles > 1) _tile_stored(2, end(2), row_bytes(2));
  if constexpr (kFour) _tile_stored(3, end(3), row_bytes(3));
  StoresAreDone();
  for (int t = 0; t < 4; ++t) {
    if (t / 2 >= kRowTiles || t % 2 >= kColumnTiles || whole(t)) continue;
    for (int64_t r = 0; r < rows_of(t); ++r)
      std::memcpy(sums(t) + r * c_row, staging.tile[t] + r * kSide, static_cast<size_t>(columns_of(t)) * 4);
  }
}

}  // namespace

bool AmxProduct::Available() { return MultipliesPairs() && HasIsa(dnnl::cpu_isa::avx512_core_amx); }

AmxProduct::Scope::Scope() { ShapeTiles(); }
AmxProduct::Scope::~Scope() { ReleaseTiles(); }

void AmxProduct::PackLeft(const float* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                          int64_t pair, uint32_t* rows) {
  PackRows(from, distance, terms, count, depth, pair, rows);
}

void AmxProduct::PackLeft(const BFloat16* from, int64_t distance, int64_t terms, int64_t count, int64_t depth,
                          int64_t pair, uint32_t* rows) {
  PackRows(from, distance, terms, count, depth, pair, rows);
}

void AmxProduct::Multiply(const uint32_t* left, int64_t depth, const uint32_t* right,
                          std::span<const SlotRun> runs, float* c, int64_t c_row, int64_t rows,
                          int64_t columns, bool add, Ahead& ahead) {
  constexpr decltype(&MultiplyTiles<1, 1>) kBySize[2][2] = {{MultiplyTiles<1, 1>, MultiplyTiles<1, 2>},
                                                            {MultiplyTiles<2, 1>, MultiplyTiles<2, 2>}};
  kBySize[rows > kSide][columns > kSide](left, depth, right, runs, c, c_row, rows, columns, add, ahead);
}

#else

bool AmxProduct::Available() { return false; }
AmxProduct::Scope::Scope() { std::abort(); }
AmxProduct::Scope::~Scope() = default;
void AmxProduct::PackLeft(const float*, int64_t, int64_t, int64_t, int64_t, int64_t, uint32_t*) {
  std::abort();
}
void AmxProduct::PackLeft(const BFloat16*, int64_t, int64_t, int64_t, int64_t, int64_t, uint32_t*) {
  std::abort();
}
void AmxProduct::Multiply(const uint32_t*, int64_t, const uint32_t*, std::span<const SlotRun>, float*,
                          int64_t, int64_t, int64_t, bool, Ahead&) {
  std::abort();
}

#endif

}  // namespace act
