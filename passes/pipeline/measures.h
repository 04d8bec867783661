// What an evaluation measures beside the loss of each batch.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/plan/graph.h"

namespace act {

// Adds to the outputs of a forward pass what Plan::eval has after the loss.
llvm::Error AddMeasures(Graph& graph);

}  // namespace act
