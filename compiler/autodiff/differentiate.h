// Reverse-mode differentiation: appends the backward pass and the optimizer's updates to
// a forward graph.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/autodiff/append_updates.h"
#include "compiler/ops/grad_context.h"

namespace act {

struct Gradients {
  // Forward values that the backward pass reads, in the order of the rules.
  std::vector<ValueId> saved;
  // Each forward value with a gradient of it, partial sums included.
  std::vector<std::pair<ValueId, ValueId>> of_values;
};

// Builds d(loss)/d(parameter) for each of `trainable`, and an update as soon as a gradient is
// complete (append_updates.h). Errors: the loss is not a scalar f32, or no path leads from any
// parameter to the loss.
llvm::Expected<Gradients> Differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& trainable,
                                        const UpdateOptions& options);

}  // namespace act
