// Resampling of the spatial axes. Each axis has a table of the two input coordinates that an output
// coordinate mixes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

// Output o of one axis is (1 - t) x[low] + t x[high]. Nearest has low == high and t == 0.
struct ResizeAxis {
  struct Tap {
    int64_t low = 0, high = 0;
    float t = 0;
  };
  int64_t in = 1;
  std::vector<Tap> taps;  // one for each output coordinate
  int64_t out() const { return static_cast<int64_t>(taps.size()); }
};

// Always has three spatial axes, as Window has. Missing ones come first and copy.
struct ResizeShape {
  int64_t batch = 0, channels = 0;
  bool linear = false;
  std::array<ResizeAxis, 3> axes;
};

std::optional<ResizeShape> ResizeShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                         std::string* why);

}  // namespace act
