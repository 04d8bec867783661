// A reduction as two sets of axes of x: those that y keeps, and those that are reduced.
#pragma once

#include <optional>
#include <string>

#include "kernels/site/strided.h"
#include "runtime/executor/kernel.h"

namespace act {

// y[i] = reduce over j of x[kept.At(i) + reduced.At(j)]
struct ReduceShape {
  Strided kept, reduced;
};

// From the attribute `axes` (negative ones count from the end). x and y have one element type, or x is
// bfloat16 and y float32.
std::optional<ReduceShape> ReduceShapeOf(const Attributes& attrs, const TensorView& x, const TensorView& y,
                                         std::string* why);

}  // namespace act
