// What the kernels of operators along one axis share.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "runtime/executor/kernel.h"

namespace act {

struct TopKShape {
  int64_t rows = 0, extent = 0, k = 0;
  bool largest = true, last = false;

  // Whether position a of the row comes before position b in the result. NaN counts as larger than
  // all numbers.
  bool Before(const float* row, int64_t a, int64_t b) const {
    const float x = largest ? row[a] : row[b], y = largest ? row[b] : row[a];
    if (x > y || (std::isnan(x) && !std::isnan(y))) return true;
    const bool equal = x == y || (std::isnan(x) && std::isnan(y));
    return equal && (last ? a > b : a < b);
  }
};
std::optional<TopKShape> TopKShapeOf(const KernelSite& site, std::string* why);

// x as [outer, extent, inner].
struct CumSumShape {
  int64_t outer = 1, extent = 1, inner = 1;
  bool exclusive = false, reverse = false;
};
std::optional<CumSumShape> CumSumShapeOf(const KernelSite& site, std::string* why);

}  // namespace act
