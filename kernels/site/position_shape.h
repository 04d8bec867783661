// What the kernels of operators whose results are positions share: FlatIndex, Range and NonZero.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

// The extents of the axes that a FlatIndex joins, one for each number of a tuple. Nullopt, and the reason in `why`,
// where tuples and result do not fit.
std::optional<std::vector<int64_t>> FlatIndexExtentsOf(const KernelSite& site, std::string* why);

// y[i] = first + step i, which saturates at kTooLarge.
struct RangeShape {
  int64_t first = 0, step = 0;
};
std::optional<RangeShape> RangeShapeOf(const KernelSite& site, std::string* why);

// Whether x, coordinates and flags of a NonZero fit, of any type but float16 and bfloat16.
bool NonZeroFits(const KernelSite& site, std::string* why);

}  // namespace act
