// Tells which values of a training graph are gradients.
#pragma once

#include "compiler/ir/value_map.h"

namespace act {

// True for values that the backward pass computes from the loss's gradient, or from the constant
// that it begins with. Values that it computes from forward values and
// codes alone are no gradients.
ValueMap<bool> GradientValues(const Graph& graph);

}  // namespace act
