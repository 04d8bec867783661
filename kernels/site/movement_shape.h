// Operators that only move elements, described as strided views of one side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/math/pad_source.h"
#include "kernels/site/strided.h"
#include "runtime/executor/kernel.h"

namespace act {

// Transpose: y[i] = x[view.At(i)].
std::optional<Strided> TransposeView(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                     std::string* why);
// Concat: y[views[j].At(i)] = x_j[i].
std::optional<std::vector<Strided>> ConcatViews(const Attributes& attrs, const std::vector<TensorView>& x,
                                                const TensorView& y, std::string* why);
// Slice of `whole` with the extents of `part`: part[i] = whole[view.At(i)].
std::optional<Strided> SliceView(const Attributes& attrs, const TensorView& whole, const TensorView& part,
                                 std::string* why);

// Pad: for each axis of y, the coordinate of x that it shows, or -1 for the pad value.
struct PadShape {
  PadMode mode = PadMode::kConstant;
  std::vector<std::vector<int64_t>> source;  // [axis][coordinate of y]
  std::vector<int64_t> x_strides;
  float value = 0;
};
std::optional<PadShape> PadShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                   std::string* why);

}  // namespace act
