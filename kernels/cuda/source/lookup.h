// Where rows that are looked up lie.
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/lookup_parameters.h"
#include "kernels/cuda/source/report.h"

namespace act::cuda {

enum class LiveFlags { kNone, kFloats, kBytes };

struct RowPlace {
  int64_t place;  // of the row in the large tensor, in units
  bool inside;    // its index is in range
  bool live;
};

// `reports`: whether this thread is the one that reports the row's index.
template <class Index, LiveFlags kFlags>
ACT_DEVICE RowPlace PlaceOfRow(const LookupParameters& p, int32_t row, bool reports) {
  const Places at = PlacesOf(p.rows, row);
  const int64_t index = Load(static_cast<const Index*>(p.index) + at.to);
  RowPlace result = {0, index >= -p.extent && index < p.extent, true};
  if (!result.inside && reports) Report(p.faults, p.fault_site, DataFault::kIndex, index);
  if (result.inside) result.place = at.from + p.step * (index < 0 ? index + p.extent : index);
  if constexpr (kFlags != LiveFlags::kNone) {
    int32_t rest = row;
    Split(p.live_rows, rest);
    const int32_t flag = Split(p.live_extent, rest);
    if constexpr (kFlags == LiveFlags::kFloats)
      result.live = Load(static_cast<const float*>(p.live) + flag) != 0;
    else
      result.live = Load(static_cast<const uint8_t*>(p.live) + flag) != 0;
  }
  return result;
}

}  // namespace act::cuda
