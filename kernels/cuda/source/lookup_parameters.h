#pragma once

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/math/step_block.h"

namespace act::cuda {

// kernels/site/gather_shape.h: row r of the small tensor, and its place in the large one.
struct LookupParameters {
  Axes rows;  // from: whole.At(r), in units; to: the place of the row's index
  const void* index = nullptr;
  const void* live = nullptr;
  int64_t extent = 0, step = 0;  // step in units
  Divisor live_rows, live_extent;
  FaultRecord* faults = nullptr;
  int32_t fault_site = -1;
};

struct GatherParameters {
  LookupParameters lookup;
  const void* x = nullptr;
  void* y = nullptr;
  Divisor row_units;
  int32_t items = 0;  // units of y
};

// Updates are sorted by target: the place of a row in y, in units of `unit` elements.
inline constexpr int kChunkRows = 32;  // sorted rows that a thread combines
struct ScatterParameters {
  LookupParameters lookup;
  const void* update = nullptr;
  void* y = nullptr;
  uint32_t *keys = nullptr, *positions = nullptr;  // targets, and the rows of the updates that go there
  void *heads = nullptr, *tails = nullptr;         // [chunk][length]
  int64_t unit = 1;
  uint32_t targets = 0;  // a row that goes nowhere has this target
  int32_t count = 0;     // rows of the updates
  Divisor length;        // of a row
  int32_t items = 0;     // chunks * length
};

}  // namespace act::cuda
