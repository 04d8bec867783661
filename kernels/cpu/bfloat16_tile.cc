#include "kernels/cpu/bfloat16_tile.h"

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bfloat16_tile.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "kernels/cpu/bfloat16-inl.h"
#include "kernels/cpu/instructions.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);

template <bool kToWrite>
HWY_INLINE void AskFor(const BFloat16* start, size_t element) {
  // A prefetch is not an access, so the address need not be valid. Therefore there is no arithmetic on
  // the pointer.
  const auto at = reinterpret_cast<uintptr_t>(start) + element * sizeof(BFloat16);
  __builtin_prefetch(reinterpret_cast<const void*>(at), kToWrite);  // NOLINT(performance-no-int-to-ptr)
}

// The bytes of memory that the processor moves at once.
constexpr size_t kLineElements = 64 / sizeof(BFloat16);

void WidenTile(size_t n, const BFloat16* from, float* to, size_t ahead) {
  const D d;
  size_t i = 0;
  for (; i + kLineElements <= n; i += kLineElements) {
    AskFor<false>(from, i + ahead);
    for (size_t k = i; k < i + kLineElements; k += hn::Lanes(d))
      hn::StoreU(LoadBFloat16(d, from + k), d, to + k);
  }
  for (; i < n; ++i) to[i] = ToFloat(from[i]);
}

#if HWY_TARGET == HWY_AVX3
// AVX512_BF16 rounds two vectors at once. It takes denormal numbers for 0 and keeps bits of a NaN, so
// vectors with any of these are left to integer arithmetic. The attribute replaces that of HWY_BEFORE_NAMESPACE in
// Clang, so it repeats it.
__attribute__((target(HWY_TARGET_STR ",avx512bf16"))) void RoundTileByInstruction(size_t n, const float* from,
                                                                                  BFloat16* to,
                                                                                  size_t ahead) {
  constexpr int kQuietNaN = 0x01, kDenormal = 0x20, kSignalingNaN = 0x80;
  constexpr int kOthers = kQuietNaN | kDenormal | kSignalingNaN;
  static_assert(kRoundedAtOnce == kLineElements);
  for (size_t i = 0; i + kLineElements <= n; i += kLineElements) {
    AskFor<true>(to, i + ahead);
    const __m512 low = _mm512_loadu_ps(from + i), high = _mm512_loadu_ps(from + i + 16);
    const __mmask16 others =
        _kor_mask16(_mm512_fpclass_ps_mask(low, kOthers), _mm512_fpclass_ps_mask(high, kOthers));
    if (HWY_UNLIKELY(others != 0))
      RoundBFloat16s(from + i, to + i);
    else
      _mm512_storeu_si512(to + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}
#endif

void RoundTile(size_t n, const float* from, BFloat16* to, size_t ahead) {
  size_t i = 0;
#if HWY_TARGET == HWY_AVX3
  static const bool has_instruction = UsesBFloat16Instructions();
  if (has_instruction) {
    RoundTileByInstruction(n, from, to, ahead);
    i = n / kLineElements * kLineElements;
  }
#endif
  for (; i + kLineElements <= n; i += kLineElements) {
    AskFor<true>(to, i + ahead);
    for (size_t k = i; k < i + kLineElements; k += kRoundedAtOnce) RoundBFloat16s(from + k, to + k);
  }
  for (; i < n; ++i) to[i] = FromFloat<BFloat16>(from[i]);
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(WidenTile);
HWY_EXPORT(RoundTile);

void WidenTile(size_t n, const BFloat16* from, float* to, size_t ahead) {
  HWY_DYNAMIC_DISPATCH(WidenTile)(n, from, to, ahead);
}
void RoundTile(size_t n, const float* from, BFloat16* to, size_t ahead) {
  HWY_DYNAMIC_DISPATCH(RoundTile)(n, from, to, ahead);
}

}  // namespace act
#endif
