#include "kernels/cpu/pair_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/instructions.h"
#include "kernels/cpu/pair_terms-inl.h"

namespace act {

#if defined(__x86_64__)
namespace {

// A panel at a time: a division for each vector would cost more than the packing.
template <class T>
ACT_TARGET_BF16 void PackPairBf16(const T* first, const T* second, int64_t count, int64_t width,
                                  int64_t depth, int64_t pair, uint32_t* panels) {
  const auto pairs = [&](int64_t at) ACT_TARGET_BF16 {
    const __mmask16 lanes = FirstLanes(count - at);
    return Interleaved(LoadTerm(first, at, lanes), LoadTerm(second, at, lanes));
  };
  if (width == kPairRows) {  // a vector fills two panels
    uint32_t* to = panels + pair * kPairRows;
    for (int64_t at = 0; at < count; at += kSlotLanes, to += kSlotLanes * depth) {
      const __m512i both = pairs(at);
      _mm512_mask_storeu_epi32(to, 0x00FF, both);
      if (count - at > kPairRows) _mm512_mask_storeu_epi32(to + (depth - 1) * kPairRows, 0xFF00, both);
    }
    return;
  }
  for (int64_t panel = 0; panel < count; panel += width) {
    const int64_t columns = std::min(width, (count - panel + kSlotLanes - 1) / kSlotLanes * kSlotLanes);
    uint32_t* to = panels + panel * depth + pair * columns;
    for (int64_t j = 0; j < columns; j += kSlotLanes) _mm512_storeu_si512(to + j, pairs(panel + j));
  }
}

// kVectors vectors of columns. The 8 x 3 sums and the vectors of the right operand are in
// registers. The multiplication broadcasts the left operand's elements.
template <int kVectors>
ACT_TARGET_BF16 void MultiplyPairsBf16(const uint32_t* left, const uint32_t* right,
                                       std::span<const SlotRun> runs, float* c, int64_t c_row, int64_t rows,
                                       int64_t columns, bool add, Ahead& ahead) {
  Ahead next = ahead;
  __m512 sum[kPairRows][kVectors];
  const auto lanes = [columns](int v) ACT_TARGET_BF16 { return FirstLanes(columns - v * kSlotLanes); };
#pragma GCC unroll 8
  for (int r = 0; r < kPairRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = add && r < rows ? _mm512_maskz_loadu_ps(lanes(v), c + r * c_row + v * kSlotLanes)
                                  : _mm512_setzero_ps();
  for (const SlotRun& run : runs) {
    const uint32_t *a = left + run.a * kPairRows, *b = right + run.b * kVectors * kSlotLanes;
    for (int64_t k = 0; k < run.slots; ++k, a += kPairRows, b += kVectors * kSlotLanes) {
      Prefetch(next);
      __m512bh x[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) x[v] = (__m512bh)_mm512_loadu_si512(b + v * kSlotLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kPairRows; ++r) {
        const auto y = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[r]));
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], y, x[v]);
      }
    }
  }
  ahead = next;
#pragma GCC unroll 8
  for (int r = 0; r < kPairRows; ++r) {
    if (r >= rows) break;
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(c + r * c_row + v * kSlotLanes, lanes(v), sum[r][v]);
  }
}

}  // namespace

bool MultipliesPairs() { return UsesBFloat16Instructions(); }

bool MultipliesPairsFast() {
  // Intel's manual, CPUID leaf 7: AVX512_FP16, which Clang 14 does not know by its name.
  constexpr unsigned kLeaf = 7, kFloat16 = 1U << 23;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool float16 = __get_cpuid_count(kLeaf, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kFloat16) != 0;
  return MultipliesPairs() && !(__builtin_cpu_is("intel") && float16);
}

void PackPair(const float* first, const float* second, int64_t count, int64_t width, int64_t depth,
              int64_t pair, uint32_t* panels) {
  PackPairBf16(first, second, count, width, depth, pair, panels);
}

void PackPair(const BFloat16* first, const BFloat16* second, int64_t count, int64_t width, int64_t depth,
              int64_t pair, uint32_t* panels) {
  PackPairBf16(first, second, count, width, depth, pair, panels);
}

void MultiplyPairs(const uint32_t* left, const uint32_t* right, std::span<const SlotRun> runs, float* c,
                   int64_t c_row, int64_t rows, int64_t columns, bool add, Ahead& ahead) {
  constexpr decltype(&MultiplyPairsBf16<1>) kByVectors[] = {MultiplyPairsBf16<1>, MultiplyPairsBf16<2>,
                                                            MultiplyPairsBf16<3>};
  kByVectors[(columns - 1) / kSlotLanes](left, right, runs, c, c_row, rows, columns, add, ahead);
}

#else

bool MultipliesPairs() { return false; }
bool MultipliesPairsFast() { return false; }
void PackPair(const float*, const float*, int64_t, int64_t, int64_t, int64_t, uint32_t*) { std::abort(); }
void PackPair(const BFloat16*, const BFloat16*, int64_t, int64_t, int64_t, int64_t, uint32_t*) {
  std::abort();
}
void MultiplyPairs(const uint32_t*, const uint32_t*, std::span<const SlotRun>, float*, int64_t, int64_t,
                   int64_t, bool, Ahead&) {
  std::abort();
}

#endif

}  // namespace act
