// Reverse-mode differentiation: appends the backward pass and the optimizer's updates to a forward graph.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/autodiff/grad_context.h"

namespace act {

struct Gradients {
  std::vector<SavedUse> saved;  // forward values that the backward pass reads, in the order of the rules
};

// Builds d(loss)/d(parameter) for each of `trainable`, and an update as soon as a gradient is complete.
//   optimizer "sgd": SgdUpdate with a velocity (optimizer state "<parameter>.velocity")
//   optimizer "none": the gradients become graph outputs, named "grad.<parameter>"
// Errors: loss not a scalar f32; no path from any parameter to the loss.
llvm::Expected<Gradients> Differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& trainable,
                                        const std::string& optimizer);

// The update of a parameter whose gradient is complete; with optimizer "none" the gradient becomes an output.
llvm::Error AddUpdate(GraphBuilder& builder, ValueId parameter, ValueId gradient,
                      const std::string& optimizer);

}  // namespace act
