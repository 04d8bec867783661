// Pairs of bfloat16 in registers: what pair_product.cc, pair_tiles.cc and tile_pairs.cc share.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/pair_product.h"

namespace act {

// Highway as packaged by distributions has no name for this instruction set. So this uses
// intrinsics, in functions compiled for it.
#define ACT_TARGET_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

ACT_TARGET_BF16 inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= kSlotLanes ? 0xFFFF : (1 << count) - 1);
}

ACT_TARGET_BF16 inline __m512 LoadTerm(const float* from, int64_t offset, __mmask16 lanes) {
  return from ? _mm512_maskz_loadu_ps(lanes, from + offset) : _mm512_setzero_ps();
}
ACT_TARGET_BF16 inline __m256i LoadTerm(const BFloat16* from, int64_t offset, __mmask16 lanes) {
  return from ? _mm256_maskz_loadu_epi16(lanes, from + offset) : _mm256_setzero_si256();
}

// Interleaves 16 elements of two terms as pairs.
ACT_TARGET_BF16 inline __m512i Interleaved(__m512 first, __m512 second) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512bh both = _mm512_cvtne2ps_pbh(second, first);
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), (__m512i)both);
}
ACT_TARGET_BF16 inline __m512i Interleaved(__m256i first, __m256i second) {
  constexpr __mmask16 kAll = 0xFFFF;
  const __m512i upper = _mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, second), 16);
  return _mm512_or_si512(_mm512_maskz_cvtepu16_epi32(kAll, first), upper);
}

// v[i] becomes column i of v: in words, in pairs of words, then in units of four.
ACT_TARGET_BF16 inline void TransposeWords(__m512i (&v)[kSlotLanes]) {
  constexpr __mmask16 kAll = 0xFFFF;
  __m512i w[kSlotLanes];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    w[i] = _mm512_maskz_unpacklo_epi32(kAll, v[i], v[i + 1]);
    w[i + 1] = _mm512_maskz_unpackhi_epi32(kAll, v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_maskz_unpacklo_epi64(0xFF, w[i], w[i + 2]);
    v[i + 1] = _mm512_maskz_unpackhi_epi64(0xFF, w[i], w[i + 2]);
    v[i + 2] = _mm512_maskz_unpacklo_epi64(0xFF, w[i + 1], w[i + 3]);
    v[i + 3] = _mm512_maskz_unpackhi_epi64(0xFF, w[i + 1], w[i + 3]);
  }
  // v[4 i + j], lane l of 128 bits: rows 4 i .. 4 i + 3 of column 4 l + j.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_maskz_shuffle_i32x4(kAll, v[j], v[4 + j], 0x88);
    const __m512i b = _mm512_maskz_shuffle_i32x4(kAll, v[j], v[4 + j], 0xDD);
    const __m512i c = _mm512_maskz_shuffle_i32x4(kAll, v[8 + j], v[12 + j], 0x88);
    const __m512i d = _mm512_maskz_shuffle_i32x4(kAll, v[8 + j], v[12 + j], 0xDD);
    w[j] = _mm512_maskz_shuffle_i32x4(kAll, a, c, 0x88);
    w[8 + j] = _mm512_maskz_shuffle_i32x4(kAll, a, c, 0xDD);
    w[4 + j] = _mm512_maskz_shuffle_i32x4(kAll, b, d, 0x88);
    w[12 + j] = _mm512_maskz_shuffle_i32x4(kAll, b, d, 0xDD);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = w[i];
}

}  // namespace act
#endif
