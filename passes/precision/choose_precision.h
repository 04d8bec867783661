// Under --compute=bf16: which forward values are bfloat16 in memory.
#pragma once

#include "compiler/ir/marks.h"
#include "runtime/plan/graph.h"

namespace act {

// Marks forward values by the rule of mixed precision training. A product's result is bfloat16. The
// result of elementwise arithmetic, of a movement or of a pooling is if all tensors of its size that
// it follows from are, unless it belongs to the loss: no product follows from it. All others are
// float32, but for those that only products read. So the activations of a convolutional network are
// bfloat16, and a sum of residuals that starts at an embedding stays float32: its rounding errors
// would add up from layer to layer. add-gradients gives a value's gradient the precision of the
// value, and narrow-values changes the types.
void ChoosePrecision(const Graph& graph, Marks& marks);

}  // namespace act
