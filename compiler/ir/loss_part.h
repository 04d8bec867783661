// The part of a forward pass after its last products: the loss.
#pragma once

#include "compiler/ir/value_map.h"
#include "runtime/plan/graph.h"

namespace act {

// Which values of the forward pass a product depends on, or what is made beside them. The others belong to the loss.
ValueMap<bool> LeadToProducts(const Graph& graph);

}  // namespace act
