// Arithmetic on integers (kernels/math/integer.h). It is exact modulo 2^64, so sums and products have the same bits
// in any order.
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/integer_parameters.h"
#include "kernels/cuda/source/report.h"
#include "kernels/cuda/source/team.h"
#include "kernels/math/integer.h"

namespace act::cuda {

// A thread for each element. T: of the operands, but Flag of what `select` asks. Result: of y, where kFlags makes a
// number 0 or 1.
template <IntegerOpcode kCode, int kOperands, class Flag, class T, class Result, bool kFlags>
ACT_DEVICE void Integer(const IntegerParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int64_t at[kIntegerOperands] = {};
  int32_t rest = i;
  for (int32_t d = p.axes - 1; d >= 0; --d) {
    const int64_t coordinate = Split(p.dims[d], rest);
    for (int k = 0; k < kOperands; ++k) at[k] += coordinate * p.strides[k][d];
  }
  constexpr bool kSelects = kCode == IntegerOpcode::kSelect;
  T x[kIntegerOperands] = {};
  if constexpr (kSelects) x[0] = Load(static_cast<const Flag*>(p.x[0]) + at[0]) != 0 ? 1 : 0;
  for (int k = kSelects ? 1 : 0; k < kOperands; ++k) x[k] = Load(static_cast<const T*>(p.x[k]) + at[k]);
  bool divides_by_zero = false;
  const T y = IntegerResult(kCode, x[0], x[1], x[2], &divides_by_zero);
  if (divides_by_zero) Report(p.faults, p.fault_site, DataFault::kDivision, 0);
  Store(static_cast<Result*>(p.y) + i, kFlags ? static_cast<Result>(y != 0) : static_cast<Result>(y));
}

// In what elements of T are reduced: 32 or 64 bits, which warps exchange.
template <class T>
using IntegerSum =
    std::conditional_t<sizeof(T) == 8, T, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>;

// A team for each part of each result; results are neighbours, so teams of one thread read neighbours where x's last
// axis is kept. X: of x, which is T or, of parts, IntegerSum<T>.
template <IntegerOpcode kCode, class T, class X, int kTeam, bool kFinishes>
ACT_DEVICE void ReduceIntegers(const IntegerReduceParameters& p) {
  using Sum = IntegerSum<T>;
  const int32_t lane = threadIdx.x % kTeam;
  const int32_t team = (blockIdx.x * blockDim.x + threadIdx.x) / kTeam;
  const int32_t part = team / p.results, i = team - part * p.results;
  const bool inside = part < p.parts;
  const int32_t begin = inside ? part * p.part_count : 0;
  const int32_t end = !inside ? 0 : part + 1 < p.parts ? begin + p.part_count : p.count;
  const X* x = static_cast<const X*>(p.x) + (inside ? PlaceOf(p.kept, i) : 0);
  const auto combine = [](Sum a, Sum b) {
    bool unused = false;
    return IntegerResult(kCode, a, b, Sum{0}, &unused);
  };
  Sum sum = static_cast<Sum>(NeutralOf<T>(kCode));
  for (int32_t j = begin + lane; j < end; j += kTeam)
    sum = combine(sum, static_cast<Sum>(Load(x + PlaceOf(p.reduced, j))));
  sum = OverTeam<kTeam>(sum, combine);
  if (lane > 0 || !inside) return;
  if constexpr (!kFinishes) {
    Store(static_cast<Sum*>(p.y) + team, sum);
  } else {
    T y = static_cast<T>(sum);
    if (p.divisor > 0) y = DividedBy<T>(y, p.divisor);
    Store(static_cast<T*>(p.y) + i, p.of_flags ? static_cast<T>(y != 0) : y);
  }
}

}  // namespace act::cuda
