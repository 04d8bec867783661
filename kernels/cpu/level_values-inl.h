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
// with the rounding's offset of -127..127 added. Those of codes with a sign are also asked for the
// sign (Positive).
struct UniformValue {
  HWY_INLINE UniformValue(const LevelTables&, const GroupScale& s)
      : minimum(hn::Set(D(), s.minimum)), scale(hn::Set(D(), s.scale * 0x1p-8f)) {}
  HWY_INLINE V operator()(VI position) const {  // the product is exact (see StepsOf)
    return hn::MulAdd(hn::ConvertTo(D(), position), scale, minimum);
  }
  V minimum, scale;
};
// Positions from this one on belong to codes of levels at or below 0. Positions are 256 apart, and
// offsets are less than 128.
HWY_INLINE VI LastAbove(int levels_above) { return hn::Set(DI(), levels_above * 256 - 128); }
struct SignValue {
  HWY_INLINE SignValue(const LevelTables& tables, const GroupScale& s)
      : above(hn::Set(D(), s.scale * 0x1p-8f)),
        below(hn::Set(D(), s.below * -0x1p-8f)),
        last_above(LastAbove(tables.codec.LevelsAbove())),
        first_below(hn::Set(DI(), tables.codec.LevelsAbove() * 256)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto negative = hn::Gt(position, last_above);
    const VI steps = hn::IfThenElse(negative, hn::Sub(position, first_below), position);
    return hn::Mul(hn::ConvertTo(D(), steps), hn::IfThenElse(hn::RebindMask(D(), negative), below, above));
  }
  HWY_INLINE Mask Positive(VI position) const {
    return hn::Not(hn::RebindMask(D(), hn::Gt(position, last_above)));
  }
  V above, below;
  VI last_above, first_below;
};
struct SidesValue {
  HWY_INLINE SidesValue(const LevelTables& tables, const GroupScale& s)
      : sign(tables, s), minimum(hn::Set(D(), s.minimum)), minimum_below(hn::Set(D(), -s.minimum_below)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto negative = hn::Gt(position, sign.last_above);
    const VI steps = hn::IfThenElse(negative, hn::Sub(position, sign.first_below), position);
    const Mask below = hn::RebindMask(D(), negative);
    return hn::MulAdd(hn::ConvertTo(D(), steps), hn::IfThenElse(below, sign.below, sign.above),
                      hn::IfThenElse(below, minimum_below, minimum));
  }
  HWY_INLINE Mask Positive(VI position) const { return sign.Positive(position); }
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
  HWY_INLINE FittedSignValue(const LevelTables& tables, const GroupScale& s)
      : fitted(tables.fitted),
        above(hn::Set(D(), s.scale * kFittedUnit)),
        below(hn::Set(D(), s.below * -kFittedUnit)),
        dither_above(hn::Set(D(), fitted.dither_above)),
        dither_below(hn::Set(D(), fitted.dither_below)),
        last_above(LastAbove(tables.codec.LevelsAbove())) {}
  HWY_INLINE V operator()(VI position) const {
    const VI q = CodeOf(position);
    const Mask negative = hn::RebindMask(D(), hn::Gt(position, last_above));
    const V dither = hn::IfThenElse(negative, dither_below, dither_above);
    const V steps = hn::MulAdd(dither, OffsetOf(position, q), LookUp<2 * kMostFittedLevels>(fitted.value, q));
    return hn::Mul(steps, hn::IfThenElse(negative, below, above));
  }
  HWY_INLINE Mask Positive(VI position) const {
    return hn::Not(hn::RebindMask(D(), hn::Gt(position, last_above)));
  }
  const FittedTable& fitted;
  V above, below, dither_above, dither_below;
  VI last_above;
};
// 0 for code 0.
template <class Value>
struct ZeroOrValue {
  HWY_INLINE ZeroOrValue(const LevelTables& tables, const GroupScale& s)
      : of_others(tables, s), zero(hn::Set(D(), s.minimum - s.minimum)) {}
  HWY_INLINE V operator()(VI position) const {
    const auto is_zero = hn::Lt(position, hn::Set(DI(), 128));
    const V value = of_others(hn::Sub(position, hn::Set(DI(), 256)));
    return hn::IfThenElse(hn::RebindMask(D(), is_zero), zero, value);
  }
  Value of_others;
  V zero;
};
// 1 if the code is that of an element greater than 0 (kZero: not 0). Positions have no offset.
struct MaskValue {
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
  HWY_INLINE NumberValue(const LevelTables&, const GroupScale&) {}
  HWY_INLINE V operator()(VI position) const { return hn::ConvertTo(D(), hn::ShiftRight<8>(position)); }
};

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_LEVEL_VALUES_INL_H_
