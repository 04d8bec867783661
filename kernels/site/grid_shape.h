// Sampling of images at coordinates that are data (ONNX's GridSample): which elements of one axis, with
// which weights, a coordinate mixes. What a point mixes is the product of its axes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

// The mode in which a GridSample reads between elements and beyond the ends of an axis.
struct GridMode {
  enum class Filter : uint8_t { kNearest, kLinear, kCubic };
  enum class Outside : uint8_t { kZeros, kBorder, kReflection };
  Filter filter = Filter::kLinear;
  Outside outside = Outside::kZeros;
  bool align_corners = false;  // -1 and 1 are the centres of the first and last element, not their edges
  bool pixels = false;         // a coordinate is an element's number, and no part of the axis
};

// An element that a coordinate mixes.
struct GridTap {
  int64_t at = 0;
  double weight = 0;
  double slope = 0;  // of the weight, by the grid's coordinate
};

// The elements that one coordinate mixes: at most four.
struct GridTaps {
  GridTap taps[4] = {};
  int count = 0;
  std::span<const GridTap> All() const { return {taps, static_cast<size_t>(count)}; }
};

// What coordinate `g` mixes, where -1 to 1 is the whole axis unless the mode is by pixels. Elements outside that read as 0 are left out.
// As PyTorch's grid_sample: its coordinate in float32, so that ties fall alike; a = -3/4 for cubic; slopes
// are 0 where the coordinate is clipped. extent: at least 1. A NaN makes a NaN.
GridTaps TapsOf(const GridMode& mode, int64_t extent, float g);

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
