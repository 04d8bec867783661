// The arithmetic of the operators `Integer` and `IntegerReduce` on elements of one type.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/math/host_device.h"
#include "kernels/math/integer_opcode.h"

namespace act {

// a^n modulo 2^64, n >= 0, by repeated squaring.
ACT_HOST_DEVICE inline uint64_t WrappingPower(uint64_t a, uint64_t n) {
  uint64_t power = 1;
  for (; n > 0; n >>= 1, a *= a)
    if (n & 1) power *= a;
  return power;
}

// T is the type of the elements. Sums and products are computed modulo 2^64 and cut to T, which
// gives the same as wrapping in T. Dividing by 0 sets *divides_by_zero and gives 0.
template <class T>
ACT_HOST_DEVICE T IntegerResult(IntegerOpcode code, T a, T b, T c, bool* divides_by_zero) {
  const auto wide = [](T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); };
  const auto cut = [](uint64_t x) { return static_cast<T>(x); };
  // smallest / -1 does not fit T
  const bool minus_one = std::is_signed_v<T> && b == static_cast<T>(-1);
  const auto divides = [&] {
    if (b == 0) *divides_by_zero = true;
    return b != 0;
  };
  switch (code) {
    case IntegerOpcode::kAdd:
      return cut(wide(a) + wide(b));
    case IntegerOpcode::kSub:
      return cut(wide(a) - wide(b));
    case IntegerOpcode::kMul:
      return cut(wide(a) * wide(b));
    case IntegerOpcode::kDiv:
      if (!divides()) return 0;
      return minus_one ? cut(0 - wide(a)) : static_cast<T>(a / b);
    case IntegerOpcode::kRem:
      if (!divides()) return 0;
      return minus_one ? T{0} : static_cast<T>(a % b);
    case IntegerOpcode::kMod: {
      if (!divides() || minus_one) return 0;
      const T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    }
    case IntegerOpcode::kPow:
      if (!(b < 0)) return cut(WrappingPower(wide(a), wide(b)));
      if (a == 0) *divides_by_zero = true;
      if (a == static_cast<T>(-1)) return b % 2 == 0 ? T{1} : a;
      return a == 1 ? T{1} : T{0};
    case IntegerOpcode::kMax:
      return a > b ? a : b;
    case IntegerOpcode::kMin:
      return a < b ? a : b;
    case IntegerOpcode::kNeg:
      return cut(0 - wide(a));
    case IntegerOpcode::kAbs:
      return a < 0 ? cut(0 - wide(a)) : a;
    case IntegerOpcode::kSign:
      return static_cast<T>((a > 0) - (a < 0));
    case IntegerOpcode::kAnd:
      return static_cast<T>(a & b);
    case IntegerOpcode::kOr:
      return static_cast<T>(a | b);
    case IntegerOpcode::kXor:
      return static_cast<T>(a ^ b);
    case IntegerOpcode::kNot:
      return cut(~wide(a));
    case IntegerOpcode::kShiftLeft:
      return b < 0 || wide(b) >= 8 * sizeof(T) ? T{0} : cut(wide(a) << wide(b));
    case IntegerOpcode::kShiftRight:
      if (b < 0 || wide(b) >= 8 * sizeof(T)) return a < 0 ? static_cast<T>(-1) : T{0};
      return static_cast<T>(a >> b);
    case IntegerOpcode::kEqual:
      return a == b;
    case IntegerOpcode::kGreater:
      return a > b;
    case IntegerOpcode::kLess:
      return a < b;
    case IntegerOpcode::kSelect:
      return a != 0 ? b : c;
    case IntegerOpcode::kCast:
      return a;
  }
  return 0;
}

// What changes nothing in a reduction by `code`, which is also its result where there are no elements.
template <class T>
ACT_HOST_DEVICE constexpr T NeutralOf(IntegerOpcode code) {
  // numeric_limits' functions are avoided, since device code may not call host functions.
  constexpr T kMost = static_cast<T>(~uint64_t{0} >> (64 - std::numeric_limits<T>::digits));
  constexpr T kLeast = std::is_signed_v<T> ? static_cast<T>(~kMost) : T{0};
  switch (code) {
    case IntegerOpcode::kMul:
      return 1;
    case IntegerOpcode::kMax:
      return kLeast;
    case IntegerOpcode::kMin:
      return kMost;
    default:
      return 0;
  }
}

// Toward zero. The count, which is positive, need not fit T.
template <class T>
ACT_HOST_DEVICE T DividedBy(T sum, int64_t count) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<int64_t>(sum) / count);
  else
    return static_cast<T>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count));
}

}  // namespace act
