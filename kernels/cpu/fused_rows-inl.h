// Sums, maxima and dot products of rows. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_FUSED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_FUSED_ROWS_INL_H_
#undef ACT_FUSED_ROWS_INL_H_
#else
#define ACT_FUSED_ROWS_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE::rows {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using V = hn::Vec<D>;

// A NaN stays a NaN in the maximum.
struct RowSum {
  static V Start() { return hn::Zero(D()); }
  static V Take(V a, V x, V) { return hn::Add(a, x); }
  static V Combine(V a, V b) { return hn::Add(a, b); }
  static float Reduce(V a) { return hn::GetLane(hn::SumOfLanes(D(), a)); }
};
struct RowDot : RowSum {
  static V Take(V a, V x, V y) { return hn::MulAdd(x, y, a); }
};
struct RowMax {
  static V Start() { return hn::Neg(hn::Inf(D())); }
  static V Take(V a, V x, V) { return Combine(a, x); }
  static V Combine(V a, V x) { return hn::IfThenElse(hn::Or(hn::Lt(a, x), hn::IsNaN(x)), x, a); }
  static float Reduce(V a) {
    const V max = hn::MaxOfLanes(D(), a);
    return hn::GetLane(hn::AllFalse(D(), hn::IsNaN(a)) ? max : hn::NaN(D()));
  }
};

// to[r] = the reduction of row r: x[r * length .. (r + 1) * length), and the same of y. Four vectors at a
// time hide the latency of an operation.
template <class Reduction>
void ReduceRows(size_t rows, size_t length, const float* x, const float* y, float* to) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < rows; ++r, x += length, y += length) {
    V sums[4] = {Reduction::Start(), Reduction::Start(), Reduction::Start(), Reduction::Start()};
    size_t i = 0;
    for (; i + 4 * lanes <= length; i += 4 * lanes)
      for (size_t k = 0; k < 4; ++k)
        sums[k] = Reduction::Take(sums[k], hn::LoadU(d, x + i + k * lanes), hn::LoadU(d, y + i + k * lanes));
    for (; i + lanes <= length; i += lanes)
      sums[0] = Reduction::Take(sums[0], hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    if (i < length) {
      const auto inside = hn::FirstN(d, length - i);
      const V rest =
          Reduction::Take(sums[1], hn::MaskedLoad(inside, d, x + i), hn::MaskedLoad(inside, d, y + i));
      sums[1] = hn::IfThenElse(inside, rest, sums[1]);
    }
    to[r] = Reduction::Reduce(
        Reduction::Combine(Reduction::Combine(sums[0], sums[1]), Reduction::Combine(sums[2], sums[3])));
  }
}

}  // namespace act::HWY_NAMESPACE::rows
HWY_AFTER_NAMESPACE();

#endif  // ACT_FUSED_ROWS_INL_H_
