#pragma once

#include "kernels/cuda/source/column_reduction_parameters.h"

namespace act::cuda {

inline constexpr int kRowThreads = 256;  // of a block that reduces rows

// Where reductions go: y, or, where there are several parts, parts[part * columns + column].
struct ReduceResult {
  float* y = nullptr;
  double* parts = nullptr;
  int32_t columns = 0;
  double divisor = 1;  // of a mean
};

struct ReduceColumnsParameters {
  ColumnReduction columns;
  ReduceResult result;
};

// Result i is the reduction over j < count of x[PlaceOf(kept, i) + PlaceOf(reduced, j)].
struct ReduceRowsParameters {
  const void* x = nullptr;
  Axes kept, reduced;
  int32_t count = 0, parts = 1;
  int32_t part_count = 0;  // elements of each part but the last; a multiple of 4
  ReduceResult result;
};

struct MergePartsParameters {
  int32_t parts = 1;
  ReduceResult result;
};

}  // namespace act::cuda
