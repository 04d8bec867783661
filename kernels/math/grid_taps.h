// Which elements of one axis, with which weights, a coordinate of a GridSample mixes. What a point mixes is the product
// of its axes.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"

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
  int64_t at = -1;  // below 0: none
  double weight = 0;
  double slope = 0;  // of the weight, by the grid's coordinate
};

// The elements that one coordinate mixes, in ascending order but for what is brought inside.
template <GridMode::Filter kFilter>
struct GridTaps {
  static constexpr int kCount = kFilter == GridMode::Filter::kCubic    ? 4
                                : kFilter == GridMode::Filter::kLinear ? 2
                                                                       : 1;
  GridTap taps[kCount] = {};
};

// A position on an axis, and its slope by the one that it was before.
struct GridPosition {
  double at = 0, slope = 1;
};

ACT_HOST_DEVICE inline GridPosition ClippedPosition(double at, int64_t extent) {
  const auto last = static_cast<double>(extent - 1);
  if (at > 0 && at < last) return {at, 1};
  return {at < 0 ? 0 : at > last ? last : at, 0};
}

// Mirrors at the ends of the axis, as often as it takes.
ACT_HOST_DEVICE inline GridPosition ReflectedPosition(double at, int64_t extent, bool align_corners) {
  const double low = align_corners ? 0 : -.5, span = static_cast<double>(extent) - (align_corners ? 1 : 0);
  if (!(span > 0) || !std::isfinite(at)) return {0, 0};
  const double from_low = std::fabs(at - low), extra = std::fmod(from_low, span);
  const bool flipped = std::fmod(std::floor(from_low / span), 2.0) == 1;
  const GridPosition inside = ClippedPosition(low + (flipped ? span - extra : extra), extent);
  return {inside.at, inside.slope * (flipped ? -1 : 1) * (at < low ? -1 : 1)};
}

ACT_HOST_DEVICE inline GridPosition InsidePosition(const GridMode& mode, double at, int64_t extent) {
  switch (mode.outside) {
    case GridMode::Outside::kZeros:
      return {at, 1};
    case GridMode::Outside::kBorder:
      return ClippedPosition(at, extent);
    case GridMode::Outside::kReflection:
      return ReflectedPosition(at, extent, mode.align_corners);
  }
  return {};
}

// A tap at a whole number; none if that is outside.
ACT_HOST_DEVICE inline GridTap GridTapAt(double at, int64_t extent, double weight, double slope) {
  if (at >= 0 && at < static_cast<double>(extent)) return {static_cast<int64_t>(at), weight, slope};
  return {};
}

// R. Keys, Cubic convolution interpolation for digital image processing, 1981, equation (4) with
// a = -3/4, and its derivative, at distance d >= 0.
struct KeysWeight {
  double weight = 0, slope = 0;
};
ACT_HOST_DEVICE inline KeysWeight KeysAt(double d) {
  constexpr double a = -.75;
  if (d <= 1) return {((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d};
  return {a * (((d - 5) * d + 8) * d - 4), a * ((3 * d - 10) * d + 8)};
}

// The tap of a cubic sample that is `k` elements after the one before `place`. Here each element is brought inside, not
// the coordinate. scale: the slope of the place by the coordinate.
ACT_HOST_DEVICE inline GridTap CubicTap(const GridMode& mode, int64_t extent, double place, int k,
                                        double scale) {
  const double first = std::floor(place), distance = k - (place - first);
  const KeysWeight keys = KeysAt(std::fabs(distance));
  return GridTapAt(InsidePosition(mode, first + k, extent).at, extent, keys.weight,
                   (distance > 0 ? -1 : 1) * keys.slope * scale);
}

// What coordinate `g` mixes, where -1 to 1 is the whole axis unless the mode is by pixels. Elements outside that read
// as 0 are left out. As PyTorch's grid_sample: its coordinate in float32, so that ties fall alike; a = -3/4 for cubic;
// slopes are 0 where the coordinate is clipped. extent: at least 1. A NaN makes a NaN. kFilter is the mode's filter.
// `to` has no taps before. There is no loop over taps, so that device code needs no stack for them.
template <GridMode::Filter kFilter>
ACT_HOST_DEVICE void FindTaps(const GridMode& mode, int64_t extent, float g, GridTaps<kFilter>& to) {
  if (g != g) {
    to.taps[0] = {0, g, g};
    return;
  }
  const auto size = static_cast<float>(extent);
  const float place = mode.pixels          ? g
                      : mode.align_corners ? (g + 1) / 2 * (size - 1)
                                           : ((g + 1) * size - 1) / 2;
  const double scale = mode.pixels ? 1 : (static_cast<double>(extent) - (mode.align_corners ? 1 : 0)) / 2;
  if constexpr (kFilter == GridMode::Filter::kCubic) {
    to.taps[0] = CubicTap(mode, extent, place, -1, scale);
    to.taps[1] = CubicTap(mode, extent, place, 0, scale);
    to.taps[2] = CubicTap(mode, extent, place, 1, scale);
    to.taps[3] = CubicTap(mode, extent, place, 2, scale);
  } else {
    const GridPosition p = InsidePosition(mode, place, extent);
    if constexpr (kFilter == GridMode::Filter::kNearest) {
      to.taps[0] = GridTapAt(std::nearbyint(p.at), extent, 1, 0);
    } else {
      const double first = std::floor(p.at), t = p.at - first;
      to.taps[0] = GridTapAt(first, extent, 1 - t, -p.slope * scale);
      to.taps[1] = GridTapAt(first + 1, extent, t, p.slope * scale);
    }
  }
}

}  // namespace act
