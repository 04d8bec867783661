// Pairs of bfloat16 in registers: what the products of pair_product.cc and tile_pairs.cc share.
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

}  // namespace act
#endif
