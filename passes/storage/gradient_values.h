// Which values of a training graph are gradients.
#pragma once

#include <vector>

#include "runtime/plan/graph.h"

namespace act {

// By value id: whether the backward pass makes it of the loss's gradient, or of the constant that it begins
// with; what it makes of forward values and codes alone is none.
std::vector<bool> GradientValues(const Graph& graph);

}  // namespace act
