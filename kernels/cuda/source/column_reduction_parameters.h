#pragma once

#include "kernels/cuda/source/axes_parameters.h"

namespace act::cuda {

inline constexpr int kColumnThreads = 256;  // of a block of the first stage
inline constexpr int kMergeThreads = 512;   // of a block of the second
inline constexpr int kMergeColumns = 32;    // that it merges

// What ReduceColumns reduces. Column o * length + c is the reduction over r < rows of
// x[PlaceOf(outer, o) + PlaceOf(reduced, r) + c]. One block for each tile of each part of each o.
struct ColumnReduction {
  const void* x = nullptr;
  Axes outer, reduced;
  int32_t length = 0, rows = 0;
  int32_t tiles = 1, parts = 1;  // tiles of `length`, parts of `rows`
  int32_t part_rows = 0;         // rows of each part but the last
};

}  // namespace act::cuda
