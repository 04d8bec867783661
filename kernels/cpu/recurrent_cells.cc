#include "kernels/cpu/recurrent_cells.h"

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent_cells.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/fused_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using V = hn::Vec<D>;

// Memory as the vectors read it: whole vectors, and a last one that holds `rest` units.
struct Whole {
  V Load(const float* p) const { return hn::LoadU(D(), p); }
  void Store(V v, float* p) const { hn::StoreU(v, D(), p); }
};
struct Tail {
  size_t rest;
  V Load(const float* p) const { return hn::MaskedLoad(hn::FirstN(D(), rest), D(), p); }
  void Store(V v, float* p) const { hn::BlendedStore(v, hn::FirstN(D(), rest), D(), p); }
};

// step(memory, unit) for each vector of units.
template <class Step>
HWY_INLINE void ForUnits(int64_t first, int64_t count, const Step& step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t j = first;
  for (; j + lanes <= first + count; j += lanes) step(Whole(), j);
  if (j < first + count) step(Tail{static_cast<size_t>(first + count - j)}, j);
}

HWY_INLINE V Logistic(V x) { return Sigmoid(D(), x); }
// y (1 - y): the derivative of the logistic function where it is y.
HWY_INLINE V LogisticSlope(V y) { return hn::NegMulAdd(y, y, y); }
// 1 - y^2: the hyperbolic tangent's.
HWY_INLINE V TanhSlope(V y) { return hn::NegMulAdd(y, y, hn::Set(D(), 1.0f)); }

}  // namespace

void LstmOnTarget(const LstmCells& p, int64_t units, int64_t first, int64_t count) {
  ForUnits(first, count, [&](const auto& memory, int64_t j) HWY_ATTR {
    const auto gate = [&](int64_t g) HWY_ATTR {
      return hn::Add(memory.Load(p.x + g * units + j), memory.Load(p.product + g * units + j));
    };
    const V i = Logistic(gate(0)), o = Logistic(gate(1)), f = Logistic(gate(2));
    const V g = HyperbolicTangent(D(), gate(3));
    const V before = memory.Load(p.c + j), c = hn::MulAdd(f, before, hn::Mul(i, g));
    const V squashed = HyperbolicTangent(D(), c), h = hn::Mul(o, squashed);
    memory.Store(c, p.c + j);
    memory.Store(h, p.y + j);
    memory.Store(h, p.h + j);
    memory.Store(hn::Mul(g, LogisticSlope(i)), p.slopes + j);
    memory.Store(hn::Mul(squashed, LogisticSlope(o)), p.slopes + units + j);
    memory.Store(hn::Mul(before, LogisticSlope(f)), p.slopes + 2 * units + j);
    memory.Store(hn::Mul(i, TanhSlope(g)), p.slopes + 3 * units + j);
    memory.Store(hn::Mul(o, TanhSlope(squashed)), p.c_by_h + j);
    memory.Store(f, p.forget + j);
  });
}

void LstmGradOnTarget(const LstmGradCells& p, int64_t units, int64_t first, int64_t count) {
  ForUnits(first, count, [&](const auto& memory, int64_t j) HWY_ATTR {
    V dh = memory.Load(p.dh + j);
    if (p.dy) dh = hn::Add(dh, memory.Load(p.dy + j));
    const V dc = hn::MulAdd(dh, memory.Load(p.c_by_h + j), memory.Load(p.dc + j));
    memory.Store(hn::Mul(dc, memory.Load(p.slopes + j)), p.dgates + j);
    memory.Store(hn::Mul(dh, memory.Load(p.slopes + units + j)), p.dgates + units + j);
    memory.Store(hn::Mul(dc, memory.Load(p.slopes + 2 * units + j)), p.dgates + 2 * units + j);
    memory.Store(hn::Mul(dc, memory.Load(p.slopes + 3 * units + j)), p.dgates + 3 * units + j);
    memory.Store(hn::Mul(dc, memory.Load(p.forget + j)), p.dc + j);
  });
}

void GruOnTarget(const GruCells& p, int64_t units, int64_t first, int64_t count) {
  ForUnits(first, count, [&](const auto& memory, int64_t j) HWY_ATTR {
    const auto x = [&](int64_t g) HWY_ATTR { return memory.Load(p.x + g * units + j); };
    const auto product = [&](int64_t g) HWY_ATTR { return memory.Load(p.product + g * units + j); };
    const V z = Logistic(hn::Add(x(0), product(0))), r = Logistic(hn::Add(x(1), product(1)));
    const V q = p.bias ? hn::Add(product(2), memory.Load(p.bias + j)) : product(2);
    const V candidate = HyperbolicTangent(D(), hn::MulAdd(r, q, x(2)));
    const V before = memory.Load(p.h + j), step = hn::Sub(before, candidate);
    const V h = hn::MulAdd(z, step, candidate);  // (1 - z) n + z h = n + z (h - n)
    memory.Store(h, p.h + j);
    memory.Store(h, p.y + j);
    memory.Store(hn::Mul(step, LogisticSlope(z)), p.slopes + j);
    memory.Store(hn::Mul(q, LogisticSlope(r)), p.slopes + units + j);
    memory.Store(hn::Mul(hn::Sub(hn::Set(D(), 1.0f), z), TanhSlope(candidate)), p.slopes + 2 * units + j);
    memory.Store(r, p.reset + j);
    memory.Store(z, p.update + j);
  });
}

void GruGradOnTarget(const GruGradCells& p, int64_t units, int64_t first, int64_t count) {
  ForUnits(first, count, [&](const auto& memory, int64_t j) HWY_ATTR {
    const V dh = hn::Add(memory.Load(p.dh + j), memory.Load(p.dy + j));
    const V candidate = hn::Mul(dh, memory.Load(p.slopes + 2 * units + j));
    memory.Store(hn::Mul(dh, memory.Load(p.slopes + j)), p.dgates + j);
    memory.Store(hn::Mul(candidate, memory.Load(p.slopes + units + j)), p.dgates + units + j);
    memory.Store(hn::Mul(candidate, memory.Load(p.reset + j)), p.dgates + 2 * units + j);
    memory.Store(candidate, p.dgates + 3 * units + j);
    memory.Store(hn::Mul(dh, memory.Load(p.update + j)), p.dh + j);
  });
}

void RnnOnTarget(const RnnCells& p, int64_t, int64_t first, int64_t count) {
  ForUnits(first, count, [&](const auto& memory, int64_t j) HWY_ATTR {
    const V sum = hn::Add(memory.Load(p.x + j), memory.Load(p.product + j));
    const V zero = hn::Zero(D());
    // As in a ReLU, NaN passes through.
    const V h = p.relu ? hn::IfThenElse(hn::Lt(sum, zero), zero, sum) : HyperbolicTangent(D(), sum);
    memory.Store(h, p.y + j);
    memory.Store(h, p.h + j);
  });
}

void RnnGradOnTarget(const RnnGradCells& p, int64_t, int64_t first, int64_t count) {
  ForUnits(first, count, [&](const auto& memory, int64_t j) HWY_ATTR {
    const V dh = hn::Add(memory.Load(p.dh + j), memory.Load(p.dy + j));
    memory.Store(hn::Mul(dh, memory.Load(p.slope + j)), p.dgates + j);
  });
}

}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(LstmOnTarget);
HWY_EXPORT(LstmGradOnTarget);
HWY_EXPORT(GruOnTarget);
HWY_EXPORT(GruGradOnTarget);
HWY_EXPORT(RnnOnTarget);
HWY_EXPORT(RnnGradOnTarget);

void RunCells(const LstmCells& cells, int64_t units, int64_t first, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LstmOnTarget)(cells, units, first, count);
}
void RunCells(const LstmGradCells& cells, int64_t units, int64_t first, int64_t count) {
  HWY_DYNAMIC_DISPATCH(LstmGradOnTarget)(cells, units, first, count);
}
void RunCells(const GruCells& cells, int64_t units, int64_t first, int64_t count) {
  HWY_DYNAMIC_DISPATCH(GruOnTarget)(cells, units, first, count);
}
void RunCells(const GruGradCells& cells, int64_t units, int64_t first, int64_t count) {
  HWY_DYNAMIC_DISPATCH(GruGradOnTarget)(cells, units, first, count);
}
void RunCells(const RnnCells& cells, int64_t units, int64_t first, int64_t count) {
  HWY_DYNAMIC_DISPATCH(RnnOnTarget)(cells, units, first, count);
}
void RunCells(const RnnGradCells& cells, int64_t units, int64_t first, int64_t count) {
  HWY_DYNAMIC_DISPATCH(RnnGradOnTarget)(cells, units, first, count);
}

}  // namespace act
#endif
