// kernels/math/fitted_levels.h in vectors. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_FITTED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_FITTED_INL_H_
#undef ACT_FITTED_INL_H_
#else
#define ACT_FITTED_INL_H_
#endif

#include "kernels/cpu/bit_planes-inl.h"
#include "kernels/math/fitted_levels.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// table[q[lane]], of a table of kMostFittedLevels entries (a power of two: no code of a damaged tensor reads
// past it).
template <class T, class Index>
HWY_INLINE hn::Vec<hn::Rebind<T, D>> LookUp(const T* table, Index code) {
  const hn::Rebind<T, D> d;
  const VU q = hn::And(hn::BitCast(DU(), code), hn::Set(DU(), kMostFittedLevels - 1));
  if constexpr (kMaxLanes == 16) {
    return hn::TableLookupLanes(hn::LoadU(d, table), hn::IndicesFromVec(d, q));
  } else if constexpr (kMaxLanes == 8) {
    const auto place = hn::IndicesFromVec(d, hn::And(q, hn::Set(DU(), 7u)));
    const auto upper = hn::RebindMask(d, hn::TestBit(q, hn::Set(DU(), 8u)));
    return hn::IfThenElse(upper, hn::TableLookupLanes(hn::LoadU(d, table + 8), place),
                          hn::TableLookupLanes(hn::LoadU(d, table), place));
  } else {
    return hn::GatherIndex(d, table, hn::BitCast(DI(), q));
  }
}

HWY_INLINE VU FittedPositions(VU position, const FittedLevels& levels) {
  const DU du;
  // The last level that starts at or below the position, bit by bit; those that are not there start at the
  // end.
  VU q = hn::Zero(du);
  uint32_t bit = kMostFittedLevels / 2;
  while (bit > 1 && bit + 2 > static_cast<uint32_t>(levels.count)) bit /= 2;
  for (; bit > 0; bit /= 2) {
    const VU above = hn::Or(q, hn::Set(du, bit));
    q = hn::IfThenElse(hn::Lt(position, LookUp(levels.start, above)), q, above);
  }
  const VU distance = hn::Sub(position, LookUp(levels.start, q));
  return hn::Add(hn::ShiftLeft<16>(q), hn::ShiftRight<16>(hn::Mul(distance, LookUp(levels.slope, q))));
}

HWY_INLINE VI FittedValues(VI q, const FittedLevels& levels, VI offset) {
  return hn::Add(LookUp(levels.value, q), hn::Mul(hn::Set(DI(), levels.dither), offset));
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_FITTED_INL_H_
