#include "kernels/cpu/fused_tile.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fused_tile.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/fused_math-inl.h"
#include "kernels/cpu/fused_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = HWY_CAPPED(float, 16);
using V = hn::Vec<D>;

// The elements of an operand: read from memory, or one value in all lanes.
struct Stream {
  const float* p;
  explicit Stream(const TileOperand& o) : p(o.data) {}
  V Load(size_t i) const { return hn::LoadU(D(), p + i); }
  V LoadTail(size_t i, size_t rest) const { return hn::MaskedLoad(hn::FirstN(D(), rest), D(), p + i); }
};
struct Splat {
  V v;
  explicit Splat(const TileOperand& o) : v(hn::Set(D(), *o.data)) {}
  V Load(size_t) const { return v; }
  V LoadTail(size_t, size_t) const { return v; }
};

// dst[i] = f(operands[i]...).
template <class F, class... Operands>
HWY_INLINE void Loop(size_t n, float* dst, const F& f, const Operands&... operands) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(operands.Load(i)...), d, dst + i);
  if (i < n) hn::BlendedStore(f(operands.LoadTail(i, n - i)...), hn::FirstN(d, n - i), d, dst + i);
}

template <class F>
void Unary(size_t n, const TileOperand& a, float* dst, const F& f) {
  if (a.splat) return Loop(n, dst, f, Splat(a));
  Loop(n, dst, f, Stream(a));
}

template <class F>
void Binary(size_t n, const TileOperand& a, const TileOperand& b, float* dst, const F& f) {
  if (a.splat) return Loop(n, dst, f, Splat(a), Stream(b));
  if (b.splat) return Loop(n, dst, f, Stream(a), Splat(b));
  Loop(n, dst, f, Stream(a), Stream(b));
}

template <class F>
void Ternary(size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c, float* dst,
             const F& f) {
  if (b.splat && c.splat) return Loop(n, dst, f, Stream(a), Splat(b), Splat(c));
  if (b.splat) return Loop(n, dst, f, Stream(a), Splat(b), Stream(c));
  if (c.splat) return Loop(n, dst, f, Stream(a), Stream(b), Splat(c));
  Loop(n, dst, f, Stream(a), Stream(b), Stream(c));
}

// max(v, 0) if kRelu. A NaN stays NaN: x86's max then returns its second operand.
template <bool kRelu>
HWY_INLINE V Clip(V v) {
  if constexpr (kRelu) return hn::IfThenElse(hn::Lt(v, hn::Zero(D())), hn::Zero(D()), v);
  return v;
}

template <bool kRelu>
void Arithmetic(TileOp op, size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c,
                float* dst) {
  if (op == ToTileOp(Opcode::kAdd))
    return Binary(n, a, b, dst, [](V x, V y) HWY_ATTR { return Clip<kRelu>(hn::Add(x, y)); });
  if (op == ToTileOp(Opcode::kSub))
    return Binary(n, a, b, dst, [](V x, V y) HWY_ATTR { return Clip<kRelu>(hn::Sub(x, y)); });
  if (op == ToTileOp(Opcode::kMul))
    return Binary(n, a, b, dst, [](V x, V y) HWY_ATTR { return Clip<kRelu>(hn::Mul(x, y)); });
  if (op == ToTileOp(Opcode::kFma))
    return Ternary(n, a, b, c, dst, [](V x, V y, V z) HWY_ATTR { return Clip<kRelu>(hn::MulAdd(x, y, z)); });
  if (op == TileOp::kMulSub)
    return Ternary(n, a, b, c, dst, [](V x, V y, V z) HWY_ATTR { return Clip<kRelu>(hn::MulSub(x, y, z)); });
  Ternary(n, a, b, c, dst, [](V x, V y, V z) HWY_ATTR { return Clip<kRelu>(hn::NegMulAdd(x, y, z)); });
}

// For functions without a vector form here: calls f for each element.
template <class F>
void Scalar(size_t n, const TileOperand& a, const TileOperand& b, float* dst, const F& f) {
  for (size_t i = 0; i < n; ++i) dst[i] = f(a.data[a.splat ? 0 : i], b.data ? b.data[b.splat ? 0 : i] : 0.0f);
}

void ApplyOpcode(Opcode op, size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c,
                 float* dst) {
  const D d;
  const auto one = [] HWY_ATTR { return hn::Set(D(), 1.0f); };
  switch (op) {
    case Opcode::kDiv:
      return Binary(n, a, b, dst, [](V x, V y) HWY_ATTR { return hn::Div(x, y); });
    case Opcode::kMax:
      return Binary(n, a, b, dst, [](V x, V y) HWY_ATTR {
        return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Lt(y, x), x, y));
      });
    case Opcode::kMin:
      return Binary(n, a, b, dst, [](V x, V y) HWY_ATTR {
        return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Lt(x, y), x, y));
      });
    case Opcode::kNeg:
      return Unary(n, a, dst, [](V x) HWY_ATTR { return hn::Neg(x); });
    case Opcode::kAbs:
      return Unary(n, a, dst, [](V x) HWY_ATTR { return hn::Abs(x); });
    case Opcode::kSqrt:
      return Unary(n, a, dst, [](V x) HWY_ATTR { return hn::Sqrt(x); });
    case Opcode::kExp:
      return Unary(n, a, dst, [d](V x) HWY_ATTR { return Exponential(d, x); });
    case Opcode::kLog:
      return Unary(n, a, dst, [d](V x) HWY_ATTR { return Logarithm(d, x); });
    case Opcode::kTanh:
      return Unary(n, a, dst, [d](V x) HWY_ATTR { return HyperbolicTangent(d, x); });
    case Opcode::kSigmoid:
      return Unary(n, a, dst, [d](V x) HWY_ATTR { return Sigmoid(d, x); });
    case Opcode::kErf:
      return Unary(n, a, dst, [d](V x) HWY_ATTR { return ErrorFunction(d, x); });
    case Opcode::kFloor:
      return Unary(n, a, dst, [](V x) HWY_ATTR { return hn::Floor(x); });
    case Opcode::kGreater:
      return Binary(n, a, b, dst,
                    [one](V x, V y) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(x, y), one()); });
    case Opcode::kEqual:
      return Binary(n, a, b, dst,
                    [one](V x, V y) HWY_ATTR { return hn::IfThenElseZero(hn::Eq(x, y), one()); });
    case Opcode::kSelect:
      return Ternary(n, a, b, c, dst,
                     [](V x, V y, V z) HWY_ATTR { return hn::IfThenElse(hn::Eq(x, hn::Zero(D())), z, y); });
    case Opcode::kPow:
      return Scalar(n, a, b, dst, [](float x, float y) { return std::pow(x, y); });
    case Opcode::kSin:
      return Scalar(n, a, {}, dst, [](float x, float) { return std::sin(x); });
    case Opcode::kCos:
      return Scalar(n, a, {}, dst, [](float x, float) { return std::cos(x); });
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kFma:
    case Opcode::kDropout:
    case Opcode::kRowSum:
    case Opcode::kRowMax:
      return;
  }
}

// max as in Opcode::kMax: a NaN stays NaN.
template <bool kAbs>
void Sided(size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c, float* dst) {
  Ternary(n, a, b, c, dst, [](V x, V side, V least) HWY_ATTR {
    if constexpr (kAbs) x = hn::Abs(x);
    const V v = hn::IfThenElse(hn::Lt(x, least), least, x);
    return hn::IfThenElse(hn::Gt(side, hn::Zero(D())), v, hn::Neg(v));
  });
}

bool IsArithmetic(TileOp op) {
  return op == ToTileOp(Opcode::kAdd) || op == ToTileOp(Opcode::kSub) || op == ToTileOp(Opcode::kMul) ||
         op == ToTileOp(Opcode::kFma) || op == TileOp::kMulSub || op == TileOp::kNegMulAdd;
}

void ApplyTile(TileInstr instr, size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c,
               float* dst) {
  if (instr.op == TileOp::kCopy) return Unary(n, a, dst, [](V x) HWY_ATTR { return x; });
  if (instr.op == TileOp::kSided) return Sided<false>(n, a, b, c, dst);
  if (instr.op == TileOp::kSidedAbs) return Sided<true>(n, a, b, c, dst);
  if (!IsArithmetic(instr.op)) return ApplyOpcode(static_cast<Opcode>(instr.op), n, a, b, c, dst);
  if (instr.relu) return Arithmetic<true>(instr.op, n, a, b, c, dst);
  Arithmetic<false>(instr.op, n, a, b, c, dst);
}

void ReduceRowsTile(TileOp op, size_t rows, size_t length, const float* x, const float* y, float* to) {
  if (op == TileOp::kRowDot) return rows::ReduceRows<rows::RowDot>(rows, length, x, y, to);
  if (op == ToTileOp(Opcode::kRowMax)) return rows::ReduceRows<rows::RowMax>(rows, length, x, x, to);
  rows::ReduceRows<rows::RowSum>(rows, length, x, x, to);
}

void SpreadRowsTile(size_t rows, size_t length, const float* from, float* x) {
  for (size_t r = 0; r < rows; ++r, x += length)
    Loop(
        length, x, [](V v) HWY_ATTR { return v; }, Splat({from + r}));
}

void AddProductTile(size_t n, const float* x, const float* y, float* sum) {
  Loop(
      n, sum, [](V s, V v, V w) HWY_ATTR { return hn::MulAdd(v, w, s); }, Stream({sum}), Stream({x}),
      Stream({y}));
}

void AddTile(size_t n, const float* x, float* sum) {
  Loop(
      n, sum, [](V s, V v) HWY_ATTR { return hn::Add(s, v); }, Stream({sum}), Stream({x}));
}

void FlushTile(size_t n, float* sum, double* total) {
  for (size_t i = 0; i < n; ++i) {
    total[i] += static_cast<double>(sum[i]);
    sum[i] = 0;
  }
}

}  // namespace
}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace act {

HWY_EXPORT(ApplyTile);
HWY_EXPORT(ReduceRowsTile);
HWY_EXPORT(SpreadRowsTile);
HWY_EXPORT(AddTile);
HWY_EXPORT(AddProductTile);
HWY_EXPORT(FlushTile);

// The loops accept a splat only as the last operands. A splat elsewhere changes places with another
// operand, or is written out first. Programs rarely have one, because constants are computed before
// the loop. Operands are passed by reference: by value, the third one would be stored on the stack
// in parts and then loaded whole, for which the processor has to wait.
void ApplyTile(TileInstr instr, size_t n, const TileOperand& a, const TileOperand& b, const TileOperand& c,
               float* dst) {
  const bool ternary = c.data != nullptr;
  const bool multiplies =
      instr.op == ToTileOp(Opcode::kFma) || instr.op == TileOp::kMulSub || instr.op == TileOp::kNegMulAdd;
  if (multiplies && a.splat && !b.splat) return HWY_DYNAMIC_DISPATCH(ApplyTile)(instr, n, b, a, c, dst);
  const auto filled = [&](const TileOperand& o, const auto& apply) {
    alignas(64) float elements[kTileElements];
    std::fill_n(elements, n, *o.data);
    apply(TileOperand{elements});
  };
  if (ternary && a.splat)
    return filled(a, [&](const TileOperand& f) { HWY_DYNAMIC_DISPATCH(ApplyTile)(instr, n, f, b, c, dst); });
  if (!ternary && a.splat && b.splat)
    return filled(b, [&](const TileOperand& f) { HWY_DYNAMIC_DISPATCH(ApplyTile)(instr, n, a, f, c, dst); });
  HWY_DYNAMIC_DISPATCH(ApplyTile)(instr, n, a, b, c, dst);
}

void ReduceRowsTile(TileOp op, size_t rows, size_t length, const float* x, const float* y, float* to) {
  HWY_DYNAMIC_DISPATCH(ReduceRowsTile)(op, rows, length, x, y, to);
}
void AddProductTile(size_t n, const float* x, const float* y, float* sum) {
  HWY_DYNAMIC_DISPATCH(AddProductTile)(n, x, y, sum);
}
void SpreadRowsTile(size_t rows, size_t length, const float* from, float* x) {
  HWY_DYNAMIC_DISPATCH(SpreadRowsTile)(rows, length, from, x);
}
void AddTile(size_t n, const float* x, float* sum) { HWY_DYNAMIC_DISPATCH(AddTile)(n, x, sum); }
void FlushTile(size_t n, float* sum, double* total) { HWY_DYNAMIC_DISPATCH(FlushTile)(n, sum, total); }

}  // namespace act
#endif
