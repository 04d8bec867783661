// Decodes a run of elements from their positions: makes their values and applies what follows in the same
// pass (DecodeEpilogue). Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_DECODE_RUN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_DECODE_RUN_INL_H_
#undef ACT_DECODE_RUN_INL_H_
#else
#define ACT_DECODE_RUN_INL_H_
#endif

#include <type_traits>

#include "kernels/cpu/code_tile.h"
#include "kernels/cpu/level_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

// Positions (256 times the code, with the rounding's offset) have 16 bits, and values 32: two vectors of
// values follow from one of positions.
inline constexpr bool kTwoVectors = HWY_TARGET != HWY_SCALAR;
static_assert(kMaxWordLanes == (kTwoVectors ? 2 : 1) * kMaxLanes);

// With fewer than 8 bits, positions fit 16 bits with their sign. With 8 bits, `from` is 127, which
// makes positions positive.
template <int kBits>
constexpr uint16_t kFrom = kBits < 8 ? 0 : 127;
template <int kBits, class Offsets>
HWY_INLINE VW FirstPositions(Offsets& offsets) {
  const VW next = offsets.Next();
  return kFrom<kBits> == 0 ? next : hn::Add(next, hn::Set(DW(), kFrom<kBits>));
}
template <int kBits>
HWY_INLINE VI Widen(hn::VFromD<hn::Rebind<uint16_t, D>> p) {
  const hn::Rebind<int16_t, D> d;
  if constexpr (kBits < 8) return hn::PromoteTo(DI(), hn::BitCast(d, p));
  return hn::Sub(hn::PromoteTo(DI(), p), hn::Set(DI(), int32_t{kFrom<kBits>}));
}

// The lower or upper half of 16-bit lanes, as 32-bit lanes.
template <int kBits, bool kUpper>
HWY_INLINE VI Half(VW p) {
#if HWY_TARGET == HWY_SCALAR
  return Widen<kBits>(p);
#else
  const hn::Rebind<uint16_t, D> d;
  if constexpr (kUpper) return Widen<kBits>(hn::UpperHalf(d, p));
  return Widen<kBits>(hn::LowerHalf(d, p));
#endif
}
template <bool kUpper>
HWY_INLINE Mask HalfOf(hn::Mask<DW> m) {
#if HWY_TARGET == HWY_AVX3
  return Mask{static_cast<__mmask16>(kUpper ? m.raw >> 16 : m.raw)};
#else  // lanes of a mask are 0 or -1
  return hn::RebindMask(D(), hn::MaskFromVec(Half<1, kUpper>(hn::VecFromMask(DW(), m))));
#endif
}

// What an epilogue does. kKeep is all of it, and kScale all but keep_positive.
enum class Finish : uint8_t { kNothing, kScale, kKeep };

// An epilogue in the form that vectors need. A single number is stored in `lanes` and read
// repeatedly.
class Epilogue {
 public:
  explicit Epilogue(const DecodeEpilogue& e)
      : finish_(e.keep_positive ? Finish::kKeep
                : e.Changes()   ? Finish::kScale
                                : Finish::kNothing),
        bits_(hn::Set(DU(), e.magnitude ? 0x7FFFFFFFu : ~0u)) {
    Place(e.times, 1.0f, 0);
    Place(e.plus, -0.0f, 1);  // only -0 leaves -0 unchanged
  }
  Finish finish() const { return finish_; }
  VU bits() const { return bits_; }  // those of a value that stay
  // Where the operand in the slot has element i, and how far on it has the next vector's first one.
  const float* At(size_t slot, size_t i) const { return from_[slot] + (stride_[slot] == 0 ? 0 : i); }
  size_t stride(size_t slot) const { return stride_[slot]; }

 private:
  void Place(const TileOperand& o, float otherwise, size_t slot) {
    const bool one = !o.data || o.splat;
    hn::Store(hn::Set(D(), o.data ? *o.data : otherwise), D(), lanes_[slot]);
    from_[slot] = one ? lanes_[slot] : o.data;
    stride_[slot] = one ? 0 : hn::Lanes(D());
  }

  alignas(64) float lanes_[2][kMaxLanes];
  const float* from_[2];
  size_t stride_[2];
  const Finish finish_;
  const VU bits_;
};

// Applies an epilogue to one vector after the other.
template <Finish kFinish>
class Finisher {
 public:
  // From element `first` of the tile on.
  HWY_INLINE Finisher(const Epilogue& e, size_t first)
      : bits_(e.bits()),
        times_(e.At(0, first)),
        plus_(e.At(1, first)),
        times_stride_(e.stride(0)),
        plus_stride_(e.stride(1)) {}

  HWY_INLINE V Next(V v, Mask drop) {
    if constexpr (kFinish == Finish::kNothing) return v;
    const V done = Of(v, drop, hn::LoadU(D(), times_), hn::LoadU(D(), plus_));
    times_ += times_stride_;
    plus_ += plus_stride_;
    return done;
  }
  // For the last `count` elements, which are fewer than a vector has. Stores them, too.
  HWY_INLINE void Last(V v, Mask drop, size_t count, float* x) const {
    const Mask rest = hn::FirstN(D(), count);
    if constexpr (kFinish != Finish::kNothing)
      v = Of(v, drop, hn::MaskedLoad(rest, D(), times_), hn::MaskedLoad(rest, D(), plus_));
    hn::BlendedStore(v, rest, D(), x);
  }

 private:
  HWY_INLINE V Of(V v, Mask drop, V times, V plus) const {
    v = hn::MulAdd(hn::BitCast(D(), hn::And(hn::BitCast(DU(), v), bits_)), times, plus);
    if constexpr (kFinish == Finish::kKeep) v = hn::Mul(v, hn::IfThenZeroElse(drop, hn::Set(D(), 1.0f)));
    return v;
  }

  const VU bits_;
  const float *times_, *plus_;
  size_t times_stride_, plus_stride_;
};

template <class Value>
HWY_INLINE typename Value::Position PositionOf(VI position) {
  if constexpr (std::is_same_v<typename Value::Position, V>)
    return hn::ConvertTo(D(), position);
  else
    return position;
}

template <class Value, int kBits>
concept HasKinds = requires {
  typename Value::template Kinds<kFrom<kBits>>;
};
template <class Value>
concept HasSign = Value::kHasSign;

// The values of a vector of positions, and which of them are of the second kind (level_values-inl.h).
struct Values {
  // second: used only if there are twice as many 16-bit lanes
  V first, second;
  Mask other_first, other_second;
};
template <int kBits, class Value>
HWY_INLINE Values ValuesOf(const LevelTables& tables, const Value& value, VW p) {
  if constexpr (HasKinds<Value, kBits>) {
    const auto other = typename Value::template Kinds<kFrom<kBits>>(tables).Split(p);
    const Mask low = HalfOf<false>(other), high = HalfOf<true>(other);
    return {value(PositionOf<Value>(Half<kBits, false>(p)), low),
            value(PositionOf<Value>(Half<kBits, true>(p)), high), low, high};
  } else {
    const Mask none = hn::FirstN(D(), 0);
    return {value(PositionOf<Value>(Half<kBits, false>(p))), value(PositionOf<Value>(Half<kBits, true>(p))),
            none, none};
  }
}

// x[i] = value of element i, with the epilogue. positions(i) returns the positions from i on, and
// is called in order. `first` is the tile's element that is element 0 here.
template <Finish kFinish, int kBits, class PositionsOf, class Value>
HWY_INLINE void DecodeRunAs(const PositionsOf& positions, size_t count, const LevelTables& tables,
                            const Value& value, const Epilogue& epilogue, size_t first, float* x) {
  const D d;
  const size_t lanes = hn::Lanes(d), step = kTwoVectors ? 2 * lanes : lanes;
  Finisher<kFinish> finisher(epilogue, first);
  size_t i = 0;
  for (; i + step <= count; i += step) {
    const Values v = ValuesOf<kBits>(tables, value, positions(i));
    hn::StoreU(finisher.Next(v.first, v.other_first), d, x + i);
    if constexpr (kTwoVectors) hn::StoreU(finisher.Next(v.second, v.other_second), d, x + i + lanes);
  }
  if (i == count) return;
  const Values v = ValuesOf<kBits>(tables, value, positions(i));
  if (i + lanes > count) return finisher.Last(v.first, v.other_first, count - i, x + i);
  hn::StoreU(finisher.Next(v.first, v.other_first), d, x + i);
  i += lanes;
  if (i < count) finisher.Last(v.second, v.other_second, count - i, x + i);
}

// Calls decode with the epilogue's Finish as a constant.
template <class Value, class Decode>
HWY_INLINE void ForFinish(const Epilogue& epilogue, const Decode& decode) {
  switch (epilogue.finish()) {
    case Finish::kNothing:
      return decode(std::integral_constant<Finish, Finish::kNothing>());
    case Finish::kKeep:
      if constexpr (HasSign<Value>) return decode(std::integral_constant<Finish, Finish::kKeep>());
      [[fallthrough]];  // codes without a sign are not asked for it
    case Finish::kScale:
      return decode(std::integral_constant<Finish, Finish::kScale>());
  }
}
template <int kBits, class PositionsOf, class Value>
HWY_INLINE void DecodeRun(const PositionsOf& positions, size_t count, const LevelTables& tables,
                          const Value& value, const Epilogue& epilogue, size_t first, float* x) {
  ForFinish<Value>(epilogue, [&](auto finish) HWY_ATTR {
    DecodeRunAs<decltype(finish)::value, kBits>(positions, count, tables, value, epilogue, first, x);
  });
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_DECODE_RUN_INL_H_
