#include "runtime/base/dim.h"

#include <algorithm>

namespace act {
namespace {

int64_t Clamp(int64_t v) { return std::clamp(v, -kTooLarge, kTooLarge); }

}  // namespace

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return a > 0 ? kTooLarge : -kTooLarge;
  return Clamp(r);
}

int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return (a > 0) == (b > 0) ? kTooLarge : -kTooLarge;
  return Clamp(r);
}

int64_t RoundUp(int64_t value, int64_t unit) {
  return SaturatingMul(SaturatingAdd(value, unit - 1) / unit, unit);
}

int64_t Dim::At(int64_t n) const {
  const int64_t linear = SaturatingMul(per_batch, n);
  const int64_t square = SaturatingMul(SaturatingMul(per_batch2, n), n);
  return SaturatingAdd(fixed, SaturatingAdd(linear, square));
}

Dim operator+(const Dim& a, const Dim& b) {
  return {SaturatingAdd(a.fixed, b.fixed), SaturatingAdd(a.per_batch, b.per_batch),
          SaturatingAdd(a.per_batch2, b.per_batch2)};
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim operator*(const Dim& a, const Dim& b) {
  if (b.IsFixed())  // nearly always
    return {SaturatingMul(a.fixed, b.fixed), SaturatingMul(a.per_batch, b.fixed),
            SaturatingMul(a.per_batch2, b.fixed)};
  const bool cubic = (a.per_batch2 != 0 && (b.per_batch != 0 || b.per_batch2 != 0)) ||
                     (b.per_batch2 != 0 && (a.per_batch != 0 || a.per_batch2 != 0));
  Dim r;
  r.fixed = SaturatingMul(a.fixed, b.fixed);
  r.per_batch = SaturatingAdd(SaturatingMul(a.fixed, b.per_batch), SaturatingMul(a.per_batch, b.fixed));
  r.per_batch2 = SaturatingAdd(
      SaturatingMul(a.per_batch, b.per_batch),
      SaturatingAdd(SaturatingMul(a.fixed, b.per_batch2), SaturatingMul(a.per_batch2, b.fixed)));
  if (cubic) r.per_batch2 = kTooLarge;
  return r;
}

std::optional<Dim> DivideExact(const Dim& a, const Dim& b) {
  if (a == Dim(0)) return b == Dim(0) ? std::nullopt : std::optional<Dim>(Dim(0));
  const auto divide = [&a](int64_t by, int shift) -> std::optional<Dim> {
    int64_t c[3] = {a.fixed, a.per_batch, a.per_batch2};
    for (int i = 0; i < 3; ++i)
      if (c[i] % by != 0 || (i < shift && c[i] != 0)) return std::nullopt;
    Dim r;
    r.fixed = c[shift] / by;
    if (shift < 2) r.per_batch = c[shift + 1] / by;
    if (shift < 1) r.per_batch2 = c[2] / by;
    return r;
  };
  const int terms = (b.fixed != 0) + (b.per_batch != 0) + (b.per_batch2 != 0);
  if (terms == 1)
    return b.fixed ? divide(b.fixed, 0) : b.per_batch ? divide(b.per_batch, 1) : divide(b.per_batch2, 2);
  if (terms == 0) return std::nullopt;
  // With several terms, only a constant multiple of b can be divided by b (2N+2 by N+1).
  const int64_t ratio = b.fixed ? a.fixed / b.fixed : a.per_batch / b.per_batch;
  if (ratio != 0 && Dim(ratio) * b == a) return Dim(ratio);
  return std::nullopt;
}

std::string ToString(const Dim& dim) {
  std::string s;
  const auto term = [&s](int64_t c, const char* power) {
    if (c == 0) return;
    if (!s.empty() && c > 0) s += '+';
    if (*power == 0 || (c != 1 && c != -1)) s += std::to_string(c);
    if (*power != 0 && c == -1) s += '-';
    s += power;
  };
  term(dim.per_batch2, "N^2");
  term(dim.per_batch, "N");
  term(dim.fixed, "");
  return s.empty() ? "0" : s;
}

}  // namespace act
