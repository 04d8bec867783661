// The axes over which two strided tensors are walked together.
#pragma once

#include "kernels/cuda/source/axes_parameters.h"
#include "kernels/cuda/source/device.h"

namespace act::cuda {

struct Places {
  int64_t from = 0, to = 0;
};

ACT_DEVICE Places PlacesOf(const Axes& axes, int32_t i) {
  Places places;
  for (int32_t d = axes.count - 1; d >= 0; --d) {
    const int64_t at = Split(axes.dims[d], i);
    places.from += at * axes.from[d];
    places.to += at * axes.to[d];
  }
  return places;
}

// Where there is one tensor, `from` alone. The outermost axis costs no division.
ACT_DEVICE int64_t PlaceOf(const Axes& axes, int32_t i) {
  int64_t place = 0;
  for (int32_t d = axes.count - 1; d > 0; --d) place += Split(axes.dims[d], i) * axes.from[d];
  return axes.count > 0 ? place + i * axes.from[0] : place;
}

}  // namespace act::cuda
