// How a reduction of rows is cut into blocks (kernels/cuda/source/column_reduction.h).
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/source/column_reduction_parameters.h"
#include "kernels/site/strided.h"

namespace act::cuda {

inline int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The least power of two that is at least x, for x >= 1.
int64_t PowerOfTwoAbove(int64_t x);

// Views of the same dims as a kernel's parameter; `to` may be left out. Nullopt if there are too many
// axes or elements.
std::optional<Axes> AxesOf(const Strided& from, const Strided* to = nullptr);
bool AllMultiplesOf4(const std::vector<int64_t>& numbers);

struct ColumnPlan {
  ColumnReduction reduction;  // x is left out
  int column_lanes = 1, vector = 1;
  int64_t blocks = 0;
};

// The reduction over `reduced` of each of the columns outer x length, whose last axis is contiguous. At most
// `most_parts` parts. `aligned`: that x may be read by four elements if strides allow. Nullopt if the extents
// are too large for a kernel.
std::optional<ColumnPlan> PlanColumns(const Strided& outer, int64_t length, const Strided& reduced,
                                      int64_t most_parts, bool aligned);

}  // namespace act::cuda
