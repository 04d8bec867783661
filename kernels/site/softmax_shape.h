// What the kernels of softmax need of a node: rows of the last axis.
#pragma once

#include <optional>
#include <string>

#include "runtime/executor/kernel.h"

namespace act {

struct SoftmaxShape {
  int64_t rows = 0, columns = 0;
};

// Nullopt, with the reason in *why, if operands and results are not f32 of the same dims.
std::optional<SoftmaxShape> SoftmaxShapeOf(const KernelSite& site, std::string* why);

}  // namespace act
