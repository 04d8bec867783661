// Turns decoded codes into the elements' values, or into their mask: kernels/math/level_code.h in
// vectors. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_LEVEL_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_LEVEL_VALUES_INL_H_
#undef ACT_LEVEL_VALUES_INL_H_
#else
#define ACT_LEVEL_VALUES_INL_H_
#endif

#include "kernels/cpu/fitted-inl.h"
#include "kernels/math/level_code.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// Each of these is made for a group and then asked for the values of positions: 256 times the code,
// with the rounding's offset of -127..127 added, as the type Position. Most codes have two kinds of levels. Their
// values have a type Kinds, which tells the kinds apart while positions have 16 bits or codes are bytes, because a
// vector then holds more of them. Those of codes with a sign have kHasSign, and the second kind is that of elements at
// or below 0.
struct UniformValue {
  using Position = V;
  HWY_INLINE UniformValue(const LevelTables&, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)), scale(hn::Set(D(), s.scale * 0x1p-8f)) {}
  HWY_INLINE V operator()(V position) const {  // the product is exact (see StepsOf)
    return hn::MulAdd(position, scale, minimum);
  }
  V minimum, scale;
};
// Split returns where a position belongs to the second kind, and may move positions. Positions are kFrom
// more than what they stand for (Widen), 256 apart, and their offsets are less than 128. If kFrom is 0, they
// may be negative.
template <int kFrom>
HWY_INLINE hn::Mask<DW> FromLevel(int level, VW position) {
  const hn::RebindToSigned<DW> d;
  if constexpr (kFrom == 0)
    return hn::RebindMask(
        DW(), hn::Gt(hn::BitCast(d, position), hn::Set(d, static_cast<int16_t>(level * 256 - 128))));
  return hn::Gt(position, hn::Set(DW(), static_cast<uint16_t>(level * 256 - 128 + kFrom)));
}
// The bytes that are at least `level`.
HWY_INLINE VB FromLevel(int level, VB codes) {
  const VB from = hn::Set(DB(), static_cast<uint8_t>(level));
  return hn::VecFromMask(DB(), hn::Eq(hn::Max(codes, from), codes));
}
// The levels at or below 0. kMoves: their positions count from the first of them.
template <int kFrom, bool kMoves>
struct Sides {
  HWY_INLINE explicit Sides(const LevelTables& tables) : levels_above(tables.codec.LevelsAbove()) {}
  HWY_INLINE hn::Mask<DW> Split(VW& position) const {
    const auto below = FromLevel<kFrom>(levels_above, position);
    if constexpr (kMoves) {
      const VW first = hn::Set(DW(), static_cast<uint16_t>(levels_above * 256));
      position = hn::IfThenElse(below, hn::Sub(position, first), position);
    }
    return below;
  }
  // The same for codes: bytes that are all ones in the second kind.
  HWY_INLINE VB SplitCodes(VB& codes) const {
    const VB below = FromLevel(levels_above, codes);
    if constexpr (kMoves)
      codes = hn::Sub(codes, hn::And(below, hn::Set(DB(), static_cast<uint8_t>(levels_above))));
    return below;
  }
  int levels_above;
};
// All levels but that of 0, which is code 0. Positions count from the first of them.
template <int kFrom>
struct NotZero {
  HWY_INLINE explicit NotZero(const LevelTables&) {}
  HWY_INLINE hn::Mask<DW> Split(VW& position) const {
    const auto others = FromLevel<kFrom>(1, position);
    position = hn::Sub(position, hn::Set(DW(), uint16_t{256}));
    return others;
  }
  HWY_INLINE VB SplitCodes(VB& codes) const {
    const VB others = FromLevel(1, codes);
    codes = hn::Sub(codes, hn::Set(DB(), uint8_t{1}));
    return others;
  }
};
struct SignValue {
  using Position = V;
  template <int kFrom>
  using Kinds = Sides<kFrom, true>;
  static constexpr bool kHasSign = true;
  HWY_INLINE SignValue(const LevelTables&, const GroupScale& s)
      : above(hn::Set(D(), s.scale * 0x1p-8f)), below(hn::Set(D(), s.below * -0x1p-8f)) {}
  HWY_INLINE V operator()(V steps, Mask negative) const {
    return hn::Mul(steps, hn::IfThenElse(negative, below, above));
  }
  V above, below;
};
struct SidesValue {
  using Position = V;
  template <int kFrom>
  using Kinds = Sides<kFrom, true>;
  static constexpr bool kHasSign = true;
  HWY_INLINE SidesValue(const LevelTables& tables, const GroupScale& s)
      : sign(tables, s), minimum(hn::Set(D(), s.minimum)), minimum_below(hn::Set(D(), -s.minimum_below)) {}
  HWY_INLINE V operator()(V steps, Mask negative) const {
    return hn::MulAdd(steps, hn::IfThenElse(negative, sign.below, sign.above),
                      hn::IfThenElse(negative, minimum_below, minimum));
  }
  SignValue sign;
  V minimum, minimum_below;
};
// The code of a position, and its offset.
HWY_INLINE VI CodeOf(VI position) { return hn::ShiftRight<8>(hn::Add(position, hn::Set(DI(), 128))); }
HWY_INLINE V OffsetOf(VI position, VI code) {
  return hn::ConvertTo(D(), hn::Sub(position, hn::ShiftLeft<8>(code)));
}
// Exact: whole numbers of 16 bits times a scale of 8 bits.
struct FittedUniformValue {
  using Position = VI;
  HWY_INLINE FittedUniformValue(const LevelTables& tables, const GroupScale& s)
      : fitted(tables.fitted),
        minimum(hn::Set(D(), s.minimum)),
        scale(hn::Set(D(), s.scale * kFittedUnit)),
        dither(hn::Set(D(), fitted.dither_above)) {}
  HWY_INLINE V operator()(VI position) const {
    const VI q = CodeOf(position);
    const V steps = hn::MulAdd(dither, OffsetOf(position, q), LookUp<kMostFittedLevels>(fitted.value, q));
    return hn::MulAdd(steps, scale, minimum);
  }
  const FittedTable& fitted;
  V minimum, scale, dither;
};
struct FittedSignValue {
  using Position = VI;
  template <int kFrom>
  using Kinds = Sides<kFrom, false>;
  static constexpr bool kHasSign = true;
  HWY_INLINE FittedSignValue(const LevelTables& tables, const GroupScale& s)
      : fitted(tables.fitted),
        above(hn::Set(D(), s.scale * kFittedUnit)),
        below(hn::Set(D(), s.below * -kFittedUnit)),
        dither_above(hn::Set(D(), fitted.dither_above)),
        dither_below(hn::Set(D(), fitted.dither_below)) {}
  HWY_INLINE V operator()(VI position, Mask negative) const {
    const VI q = CodeOf(position);
    const V dither = hn::IfThenElse(negative, dither_below, dither_above);
    const V steps = hn::MulAdd(dither, OffsetOf(position, q), LookUp<2 * kMostFittedLevels>(fitted.value, q));
    return hn::Mul(steps, hn::IfThenElse(negative, below, above));
  }
  const FittedTable& fitted;
  V above, below, dither_above, dither_below;
};
// 0 for code 0.
template <class Value>
struct ZeroOrValue {
  using Position = typename Value::Position;
  template <int kFrom>
  using Kinds = NotZero<kFrom>;
  HWY_INLINE ZeroOrValue(const LevelTables& tables, const GroupScale& s)
      : of_others(tables, s), zero(hn::Set(D(), s.minimum - s.minimum)) {}
  HWY_INLINE V operator()(Position position, Mask other) const {
    return hn::IfThenElse(other, of_others(position), zero);
  }
  Value of_others;
  V zero;
};
// 1 if the code is that of an element greater than 0 (kZero: not 0). Positions have no offset.
struct MaskValue {
  using Position = VI;
  HWY_INLINE MaskValue(const LevelTables& tables, const GroupScale&)
      : from(hn::Set(DI(), tables.codec.kind == CodecKind::kZero ? 256 : 0)),
        to(hn::Set(DI(), tables.codec.LevelsAbove() * 256)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto inside = hn::AndNot(hn::Lt(position, from), hn::Lt(position, to));
    return hn::IfThenElseZero(hn::RebindMask(D(), inside), hn::Set(D(), 1.0f));
  }
  VI from, to;
};
// The code itself.
struct NumberValue {
  using Position = VI;
  HWY_INLINE NumberValue(const LevelTables&, const GroupScale&) {}
  HWY_INLINE V operator()(VI position) const { return hn::ConvertTo(D(), hn::ShiftRight<8>(position)); }
};

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVEL_VALUES_INL_H_
