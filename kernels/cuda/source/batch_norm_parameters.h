#pragma once

#include "kernels/cuda/source/column_reduction_parameters.h"
#include "kernels/math/step_block.h"

namespace act::cuda {

// The statistics of `columns.rows` rows, and where they go.
struct BatchNormParameters {
  ColumnReduction columns;
  // [part][channel]: sums of deviations from row 0, and of their squares; then the range.
  double *sums = nullptr, *squares = nullptr;
  float *lows = nullptr, *highs = nullptr;
  float *mean = nullptr, *rstd = nullptr;
  float *largest = nullptr, *running_mean = nullptr, *running_var = nullptr;  // may be left out
  double* moments = nullptr;  // [channel][5]; if there are no other results, the columns' go into these
  int32_t goes_on = 0;        // from what `moments` holds of the samples before
  double epsilon = 0, momentum = 0;
  int32_t population = 0;
  uint64_t updates_done = 0;  // steps before this one leave the running statistics as they are
  const StepBlock* step = nullptr;
};

}  // namespace act::cuda
