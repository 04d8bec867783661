// Sampling of images at coordinates that are data (ONNX's GridSample). kernels/math/grid_taps.h: what a point mixes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/math/grid_taps.h"
#include "runtime/executor/kernel.h"

namespace act {

// x [batch, extents.., channels], grid [batch, points, axes] -> y [batch, points, channels]. The grid's
// coordinates are in the opposite order of x's axes.
struct GridShape {
  GridMode mode;
  int64_t batch = 0, points = 0, channels = 0;
  std::vector<int64_t> extents;

  int64_t axes() const { return static_cast<int64_t>(extents.size()); }
  int64_t Pixels() const;
};

// Nullopt, and the reason in `why`, where the attributes of a GridSample (docs/runtime_ops.md) and the grid
// do not take x to y.
std::optional<GridShape> GridShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& grid,
                                     const TensorView& y, std::string* why);

}  // namespace act
