#include "kernels/site/grid_shape.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/site/strided.h"

namespace act {
namespace {

// A position on an axis, and its slope by the one that it was before.
struct Position {
  double at = 0, slope = 1;
};

Position Clipped(double at, int64_t extent) {
  const auto last = static_cast<double>(extent - 1);
  if (at > 0 && at < last) return {at, 1};
  return {std::clamp(at, 0.0, last), 0};
}

// Mirrors at the ends of the axis, as often as it takes.
Position Reflected(double at, int64_t extent, bool align_corners) {
  const double low = align_corners ? 0 : -.5, span = static_cast<double>(extent) - (align_corners ? 1 : 0);
  if (!(span > 0) || !std::isfinite(at)) return {0, 0};
  const double from_low = std::fabs(at - low), extra = std::fmod(from_low, span);
  const bool flipped = std::fmod(std::floor(from_low / span), 2) == 1;
  const Position inside = Clipped(low + (flipped ? span - extra : extra), extent);
  return {inside.at, inside.slope * (flipped ? -1 : 1) * (at < low ? -1 : 1)};
}

Position Inside(const GridMode& mode, double at, int64_t extent) {
  switch (mode.outside) {
    case GridMode::Outside::kZeros:
      return {at, 1};
    case GridMode::Outside::kBorder:
      return Clipped(at, extent);
    case GridMode::Outside::kReflection:
      return Reflected(at, extent, mode.align_corners);
  }
  return {};
}

void Add(GridTaps& taps, double at, int64_t extent, double weight, double slope) {
  if (at >= 0 && at < static_cast<double>(extent))
    taps.taps[taps.count++] = {static_cast<int64_t>(at), weight, slope};
}

// R. Keys, Cubic convolution interpolation for digital image processing, 1981, equation (4) with
// a = -3/4, and its derivative, at distance d >= 0.
struct Keys {
  double weight = 0, slope = 0;
};
Keys KeysAt(double d) {
  constexpr double a = -.75;
  if (d <= 1) return {((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d};
  return {a * (((d - 5) * d + 8) * d - 4), a * ((3 * d - 10) * d + 8)};
}

}  // namespace

GridTaps TapsOf(const GridMode& mode, int64_t extent, float g) {
  GridTaps taps;
  if (std::isnan(g)) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    Add(taps, 0, extent, nan, nan);
    return taps;
  }
  const auto size = static_cast<float>(extent);
  const float place = mode.pixels          ? g
                      : mode.align_corners ? (g + 1) / 2 * (size - 1)
                                           : ((g + 1) * size - 1) / 2;
  const double scale = mode.pixels ? 1 : (static_cast<double>(extent) - (mode.align_corners ? 1 : 0)) / 2;
  if (mode.filter == GridMode::Filter::kCubic) {
    // Here each element is brought inside, not the coordinate.
    const double first = std::floor(static_cast<double>(place)), t = place - first;
    for (int k = -1; k <= 2; ++k) {
      const double distance = k - t;
      const Keys keys = KeysAt(std::fabs(distance));
      Add(taps, Inside(mode, first + k, extent).at, extent, keys.weight,
          (distance > 0 ? -1 : 1) * keys.slope * scale);
    }
    return taps;
  }
  const Position p = Inside(mode, place, extent);
  if (mode.filter == GridMode::Filter::kNearest) {
    Add(taps, std::nearbyint(p.at), extent, 1, 0);
    return taps;
  }
  const double first = std::floor(p.at), t = p.at - first;
  Add(taps, first, extent, 1 - t, -p.slope * scale);
  Add(taps, first + 1, extent, t, p.slope * scale);
  return taps;
}

int64_t GridShape::Pixels() const {
  int64_t pixels = 1;
  for (const int64_t extent : extents) pixels *= extent;
  return pixels;
}

std::optional<GridShape> GridShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& grid,
                                     const TensorView& y, std::string* why) {
  const auto no = [why](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  using Filter = GridMode::Filter;
  using Outside = GridMode::Outside;
  const std::string filter = attrs.String("mode", "linear"), outside = attrs.String("outside", "zeros");
  GridShape s;
  if (filter != "nearest" && filter != "linear" && filter != "cubic") return no("no mode '" + filter + "'");
  if (outside != "zeros" && outside != "border" && outside != "reflection")
    return no("no values outside that are '" + outside + "'");
  s.mode = {filter == "nearest"  ? Filter::kNearest
            : filter == "linear" ? Filter::kLinear
                                 : Filter::kCubic,
            outside == "zeros"    ? Outside::kZeros
            : outside == "border" ? Outside::kBorder
                                  : Outside::kReflection,
            attrs.Int("align_corners") != 0, attrs.Int("pixels") != 0};
  if (x.dtype != DType::kFloat32 || grid.dtype != DType::kFloat32 || y.dtype != DType::kFloat32)
    return no("float32 only");
  const size_t rank = x.dims.size();
  const std::string what = DimsText(x.dims) + " at " + DimsText(grid.dims) + " to " + DimsText(y.dims);
  const bool fits = rank >= 3 && rank <= 5 && grid.dims.size() == rank && y.dims.size() == rank &&
                    grid.dims.back() == static_cast<int64_t>(rank) - 2 && grid.dims[0] == x.dims[0] &&
                    y.dims.back() == x.dims.back() &&
                    std::equal(grid.dims.begin(), grid.dims.end() - 1, y.dims.begin());
  if (!fits) return no("no sampling takes " + what);
  s.batch = x.dims[0];
  s.channels = x.dims.back();
  s.extents.assign(x.dims.begin() + 1, x.dims.end() - 1);
  s.points = 1;
  for (size_t a = 1; a + 1 < rank; ++a) s.points *= grid.dims[a];
  if (y.elements > 0 && x.elements == 0) return no("an empty tensor has nothing to sample");
  return s;
}

}  // namespace act
