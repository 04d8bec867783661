// Which values of a training graph are gradients.
#pragma once

#include "compiler/ir/value_map.h"

namespace act {

// Whether the backward pass makes a value of the loss's gradient, or of the constant that it begins
// with; what it makes of forward values and codes alone is none.
ValueMap<bool> GradientValues(const Graph& graph);

}  // namespace act
