// How a reduction of rows is cut into blocks (kernels/cuda/source/column_reduction.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/cuda/source/column_reduction_parameters.h"
#include "kernels/site/rows.h"

namespace act::cuda {

// Positions of device code are 32-bit numbers, and a few are added before they are compared.
inline constexpr int64_t kMostPositions = std::numeric_limits<int32_t>::max();

inline int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
// The least power of two that is at least x, for x >= 1.
int64_t PowerOfTwoAbove(int64_t x);

// Parts of the rows, for `columns` results. 512 blocks of 128 columns keep some 150 multiprocessors busy.
int64_t RowSumParts(int64_t columns);

// A merged view as a kernel's parameter. Nullopt if it has too many axes or positions.
std::optional<Axes> AxesOf(const Strided& view);
// Whether every row of four elements of the view, at a multiple of 4, is aligned to 16 bytes.
bool HoldsVectors(const Strided& view);

struct ColumnPlan {
  ColumnReduction reduction;  // x is left out
  int column_lanes = 1, vector = 1;
  int64_t blocks = 0;
};

// The reduction over `reduced` of each of the columns outer x length, whose last axis is contiguous. At most
// `most_parts` parts. Nullopt if the extents are too large for a kernel.
std::optional<ColumnPlan> PlanColumns(const Strided& outer, int64_t length, const Strided& reduced,
                                      int64_t most_parts);

}  // namespace act::cuda
