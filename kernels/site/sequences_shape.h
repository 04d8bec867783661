// What the kernels of operators along one axis share.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <type_traits>

#include "kernels/math/running_sum.h"
#include "runtime/executor/kernel.h"

namespace act {

struct TopKShape {
  int64_t rows = 0, extent = 0, k = 0;
  bool largest = true, last = false;

  // Whether position a of the row comes before position b in the result. NaN counts as larger than all numbers.
  template <class T>
  bool Before(const T* row, int64_t a, int64_t b) const {
    const T x = largest ? row[a] : row[b], y = largest ? row[b] : row[a];
    const bool x_is_nan = IsNaN(x), y_is_nan = IsNaN(y);
    if (x > y || (x_is_nan && !y_is_nan)) return true;
    const bool equal = x == y || (x_is_nan && y_is_nan);
    return equal && (last ? a > b : a < b);
  }

 private:
  template <class T>
  static bool IsNaN(T x) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
    return false;
  }
};
// x is f32 or of an integer type.
std::optional<TopKShape> TopKShapeOf(const KernelSite& site, std::string* why);

// x as [outer, extent, inner].
struct CumSumShape {
  int64_t outer = 1, extent = 1, inner = 1;
  bool exclusive = false, reverse = false;
};
// x is f32 or of an integer type.
std::optional<CumSumShape> CumSumShapeOf(const KernelSite& site, std::string* why);

}  // namespace act
