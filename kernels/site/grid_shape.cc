#include "kernels/site/grid_shape.h"

#include <algorithm>

#include "kernels/site/strided.h"

namespace act {
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
