// Rows that are looked up by an index. A thread moves one unit.
#pragma once

#include "kernels/cuda/source/lookup.h"

namespace act::cuda {

// Unit: any type of the units' size. Rows that are not live, or whose index is out of range, are 0.
template <class Unit, class Index, LiveFlags kFlags>
ACT_DEVICE void Gather(const GatherParameters& p) {
  const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.items) return;
  int32_t row = i;
  const int32_t unit = Split(p.row_units, row);
  const RowPlace at = PlaceOfRow<Index, kFlags>(p.lookup, row, unit == 0);
  Unit value = {};
  if (at.inside && at.live) value = Load(static_cast<const Unit*>(p.x) + at.place + unit);
  Store(static_cast<Unit*>(p.y) + i, value);
}

}  // namespace act::cuda
