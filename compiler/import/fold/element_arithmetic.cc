#include "compiler/import/fold/element_arithmetic.h"

namespace act::onnx_import {
namespace {

bool IsNumber(const Element& x) { return x.integer.IsFixed() && x.per_index == 0; }

// A number of 64 bits; nullopt if it would have more, which the run wraps.
OptionalElement Number(bool overflows, int64_t value) {
  return overflows ? std::nullopt : OptionalElement(Element{Dim(value)});
}

bool IsWithin(int64_t x) { return -kTooLarge < x && x < kTooLarge; }
bool IsWithin(const Dim& x) { return IsWithin(x.fixed) && IsWithin(x.per_batch) && IsWithin(x.per_batch2); }

// Polynomials saturate: nullopt if one did.
OptionalElement Exact(const Element& x) {
  return IsWithin(x.integer) && IsWithin(x.per_index) ? OptionalElement(x) : std::nullopt;
}

// Outside these bounds a quotient may overflow, as the smallest integer divided by -1 does.
bool CanDivide(const Dim& a, const Dim& b) { return IsWithin(a) && IsWithin(b) && b != Dim(0); }

// |a| < b for every N.
bool IsSmaller(const Dim& a, const Dim& b) { return SignsOf(b - a).low > 0 && SignsOf(b + a).low > 0; }

// a = b q + r, 0 <= r < b, for a fixed b and every N; nullopt where there are no such q and r, and
// where a may be below 0.
struct Quotient {
  Dim quotient;
  int64_t rest = 0;
};

std::optional<Quotient> DivideWithRest(const Dim& a, const Dim& b) {
  if (!b.IsFixed() || b.fixed <= 0 || SignsOf(a).low < 0) return std::nullopt;
  if (a.per_batch % b.fixed != 0 || a.per_batch2 % b.fixed != 0) return std::nullopt;
  const int64_t rest = (a.fixed % b.fixed + b.fixed) % b.fixed;
  return Quotient{{(a.fixed - rest) / b.fixed, a.per_batch / b.fixed, a.per_batch2 / b.fixed}, rest};
}

}  // namespace

OptionalElement AddElements(const Element& a, const Element& b) {
  if (int64_t sum = 0; IsNumber(a) && IsNumber(b)) {
    const bool overflows = __builtin_add_overflow(a.integer.fixed, b.integer.fixed, &sum);
    return Number(overflows, sum);
  }
  return Exact({a.integer + b.integer, 0, SaturatingAdd(a.per_index, b.per_index)});
}

OptionalElement SubElements(const Element& a, const Element& b) {
  if (int64_t rest = 0; IsNumber(a) && IsNumber(b)) {
    const bool overflows = __builtin_sub_overflow(a.integer.fixed, b.integer.fixed, &rest);
    return Number(overflows, rest);
  }
  return Exact({a.integer - b.integer, 0, SaturatingAdd(a.per_index, SaturatingMul(-1, b.per_index))});
}

OptionalElement MulElements(const Element& a, const Element& b) {
  if (int64_t product = 0; IsNumber(a) && IsNumber(b)) {
    const bool overflows = __builtin_mul_overflow(a.integer.fixed, b.integer.fixed, &product);
    return Number(overflows, product);
  }
  if (b.per_index != 0) return a.per_index != 0 ? std::nullopt : MulElements(b, a);
  if (a.per_index != 0 && !b.integer.IsFixed()) return std::nullopt;
  return Exact({a.integer * b.integer, 0, SaturatingMul(a.per_index, b.integer.fixed)});
}

OptionalDim DivDims(const Dim& a, const Dim& b) {
  if (!CanDivide(a, b)) return std::nullopt;
  if (a.IsFixed() && b.IsFixed()) return Dim(a.fixed / b.fixed);
  if (IsSmaller(a, b)) return Dim(0);
  if (const auto whole = DivideWithRest(a, b)) return whole->quotient;
  return DivideExact(a, b);
}

OptionalDim RemDims(const Dim& a, const Dim& b) {
  if (!CanDivide(a, b)) return std::nullopt;
  if (a.IsFixed() && b.IsFixed()) return Dim(a.fixed % b.fixed);
  if (IsSmaller(a, b)) return a;
  if (const auto whole = DivideWithRest(a, b)) return Dim(whole->rest);
  return DivideExact(a, b) ? OptionalDim(Dim(0)) : std::nullopt;
}

OptionalDim ModDims(const Dim& a, const Dim& b) {
  const OptionalDim rem = RemDims(a, b);
  if (rem && a.IsFixed() && b.IsFixed()) return Dim((rem->fixed + b.fixed) % b.fixed);
  if (rem && (*rem == Dim(0) || (SignsOf(*rem).low >= 0 && SignsOf(b).low > 0))) return rem;
  // From -b to -1: counted from the end.
  if (CanDivide(a, b) && SignsOf(a).high < 0 && SignsOf(a + b).low >= 0) return a + b;
  return std::nullopt;
}

OptionalDim MaxDims(const Dim& a, const Dim& b) {
  const auto sign = Compare(a, b);
  return sign ? OptionalDim(*sign >= 0 ? a : b) : std::nullopt;
}

OptionalDim MinDims(const Dim& a, const Dim& b) {
  const auto sign = Compare(a, b);
  return sign ? OptionalDim(*sign <= 0 ? a : b) : std::nullopt;
}

OptionalDim PowDims(const Dim& a, const Dim& b) {
  if (!b.IsFixed() || b.fixed < 0 || b.fixed > 62) return std::nullopt;
  Dim power(1);
  for (int64_t i = 0; i < b.fixed; ++i) power = power * a;
  return power.TooLarge() ? std::nullopt : OptionalDim(power);
}

OptionalDim AndDims(const Dim& a, const Dim& b) { return Dim(a != Dim(0) && b != Dim(0)); }
OptionalDim OrDims(const Dim& a, const Dim& b) { return Dim(a != Dim(0) || b != Dim(0)); }
OptionalDim XorDims(const Dim& a, const Dim& b) { return Dim((a != Dim(0)) != (b != Dim(0))); }

int64_t Wrapped(int64_t value, DType to) {
  switch (to) {
    case DType::kInt32:
      return static_cast<int32_t>(value);
    case DType::kInt16:
      return static_cast<int16_t>(value);
    case DType::kInt8:
      return static_cast<int8_t>(value);
    case DType::kUint8:
      return static_cast<uint8_t>(value);
    case DType::kUint16:
      return static_cast<uint16_t>(value);
    case DType::kUint32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

int64_t Clamped(int64_t value, DType to) {
  if (Wrapped(value, to) == value) return value;
  const int64_t all_bits = Wrapped(-1, to);  // the largest number of a type without a sign
  if (all_bits > 0) return value < 0 ? 0 : all_bits;
  int64_t most = 1;  // 2^k - 1
  while (Wrapped(2 * most + 1, to) > 0) most = 2 * most + 1;
  return value < 0 ? -most - 1 : most;
}

}  // namespace act::onnx_import
