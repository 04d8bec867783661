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

// The tables of a codec's fitted levels. For kSign they cover both sides and are indexed by the
// code. A position below the first level of the lower side belongs to the upper side.
struct FittedTable {
  alignas(64) uint32_t start[2 * kMostFittedLevels];
  alignas(64) uint32_t slope[2 * kMostFittedLevels];
  alignas(64) float value[2 * kMostFittedLevels];
  alignas(64) uint32_t cells[2 * kFittedCellWords];  // of above, of below
  uint32_t cells_above, cells_below;                 // FittedLevels::cells_per_position
  float dither_above, dither_below;
};

// What is computed from a codec once per tile. `fitted` is uninitialized if the levels are even.
struct LevelTables {
  explicit LevelTables(const Codec& c) : codec(c) {
    if (c.spacing == Spacing::kEven) return;
    const FittedPair levels = FittedLevelsOf(c);
    const FittedLevels &above = *levels.above, &below = levels.below ? *levels.below : above;
    const auto join = [&](const auto& of_above, const auto& of_below, auto* joint, size_t first_below) {
      std::memcpy(joint, of_above, sizeof of_above);
      std::memcpy(joint + first_below, of_below, sizeof of_below);
    };
    const auto first_below = static_cast<size_t>(levels.below ? c.LevelsAbove() : kMostFittedLevels);
    join(above.start, below.start, fitted.start, first_below);
    join(above.slope, below.slope, fitted.slope, first_below);
    join(above.value_as_float, below.value_as_float, fitted.value, first_below);
    join(above.cells, below.cells, fitted.cells, kFittedCellWords);
    fitted.cells_above = above.cells_per_position;
    fitted.cells_below = below.cells_per_position;
    fitted.dither_above = static_cast<float>(above.dither);
    fitted.dither_below = static_cast<float>(below.dither);
  }
  const Codec& codec;
  FittedTable fitted;
};

// table[index[lane] % kEntries], where kEntries is 16 or 32. So no code of a damaged tensor reads
// past the table.
template <int kEntries, class T, class Index>
HWY_INLINE hn::Vec<hn::Rebind<T, D>> LookUp(const T* table, Index index) {
  static_assert(kEntries == 16 || kEntries == 32);
  const hn::Rebind<T, D> d;
  if constexpr (kMaxLanes == 16 && kEntries == 16) {
    return hn::TableLookupLanes(hn::Load(d, table),
                                hn::IndicesFromVec(d, hn::And(hn::BitCast(DU(), index), hn::Set(DU(), 15u))));
  }
#if HWY_TARGET == HWY_AVX3
  if constexpr (kEntries == 32) {  // only the low five bits of an index are read
    const DU du;
    const VU entry{_mm512_permutex2var_epi32(hn::BitCast(du, hn::Load(d, table)).raw,
                                             hn::BitCast(du, index).raw,
                                             hn::BitCast(du, hn::Load(d, table + 16)).raw)};
    return hn::BitCast(d, entry);
  }
#endif
  const VU q = hn::And(hn::BitCast(DU(), index), hn::Set(DU(), kEntries - 1u));
  if constexpr (kMaxLanes == 8 && kEntries == 16) {
    const auto place = hn::IndicesFromVec(d, hn::And(q, hn::Set(DU(), 7u)));
    const auto upper = hn::RebindMask(d, hn::TestBit(q, hn::Set(DU(), 8u)));
    return hn::IfThenElse(upper, hn::TableLookupLanes(hn::Load(d, table + 8), place),
                          hn::TableLookupLanes(hn::Load(d, table), place));
  } else {
    return hn::GatherIndex(d, table, hn::BitCast(DI(), q));
  }
}

// Converts positions between even levels to positions between fitted levels, and adds the code of
// the side's first level (FittedPosition). A position's cell, 1/64 of the range, gives the level at
// or below the position. kEntries: the length of the tables.
template <int kEntries>
HWY_INLINE VU FittedPositions(VU position, const FittedTable& fitted, VU cells_per_position, VU first_word,
                              VU first_level) {
  const DU du;
  const VU cell_from = hn::Mul(hn::ShiftRight<kFittedCellShift>(position), cells_per_position);
  const VU cell = hn::Min(hn::ShiftRight<16>(cell_from), hn::Set(du, kFittedGrid - 1u));
  const VU word = LookUp<2 * kFittedCellWords>(fitted.cells, hn::Add(hn::ShiftRight<3>(cell), first_word));
  const VU nibble = hn::ShiftLeft<2>(hn::And(cell, hn::Set(du, 7u)));
  const VU q = hn::Add(hn::And(hn::Shr(word, nibble), hn::Set(du, 15u)), first_level);
  const VU distance = hn::Sub(position, LookUp<kEntries>(fitted.start, q));
  return hn::Add(hn::ShiftLeft<16>(q),
                 hn::ShiftRight<16>(hn::Mul(distance, LookUp<kEntries>(fitted.slope, q))));
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_FITTED_INL_H_
