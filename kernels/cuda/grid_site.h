// What the kernels of GridSample and of its gradients share.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/device_window.h"
#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/grid_sample_parameters.h"
#include "kernels/site/grid_shape.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {

// Without the grid. Nullopt, with the reason in *why, if points, channels or `threads` are too many.
inline std::optional<GridShapeParameters> GridParametersOf(const GridShape& s, int64_t threads,
                                                           std::string* why) {
  if (s.batch * s.points >= kMaxCount || s.channels >= kMaxCount || threads >= kMaxCount) {
    *why = "2^31 points, channels or threads";
    return std::nullopt;
  }
  GridShapeParameters p;
  p.mode = s.mode;
  std::copy(s.extents.begin(), s.extents.end(), p.extents);
  p.points = DivisorOf(s.points);
  p.channels = static_cast<int32_t>(s.channels);
  return p;
}

// Pixels that a point mixes at most.
inline int64_t PartsOfPoint(const GridShape& s) {
  switch (s.mode.filter) {
    case GridMode::Filter::kNearest:
      return GridPartsOf(GridTaps<GridMode::Filter::kNearest>::kCount, s.axes());
    case GridMode::Filter::kLinear:
      return GridPartsOf(GridTaps<GridMode::Filter::kLinear>::kCount, s.axes());
    case GridMode::Filter::kCubic:
      return GridPartsOf(GridTaps<GridMode::Filter::kCubic>::kCount, s.axes());
  }
  return 0;
}

// Template arguments of grid_sample.h: axes, filter, and what else there is.
template <class... More>
std::string GridArguments(const GridShape& s, const More&... more) {
  return TemplateArguments(
      s.axes(), "act::GridMode::Filter(" + std::to_string(static_cast<int>(s.mode.filter)) + ")", more...);
}

}  // namespace act::cuda
