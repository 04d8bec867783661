// Passes over mini-batches without updates. Each leaves all gradients of a plan, one after another.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"
#include "runtime/train/gradient_capture.h"

namespace act {

class GradientPass {
 public:
  // At the batch of the executor's layout. Errors: a gradient that is not float32, a plan that trains no
  // parameter.
  static llvm::Expected<GradientPass> Create(Executor& executor);

  // Makes the executor of `exact`, a plan of the same model, hold this one's parameters and running statistics,
  // and its passes leave gradients in this one's order. Errors name the first difference: a parameter or running
  // statistic that one of the two does not have, or has in another shape; a parameter that only one trains; other
  // inputs.
  llvm::Error ShareWith(GradientPass& exact) const;

  // Runs the batch at which `data` stands, and returns its loss. `gradient` has `elements()` floats.
  llvm::Expected<double> Run(BatchSource& data, const StepState& state, std::vector<float>& gradient);

  size_t elements() const { return elements_; }
  BoundGraph& graph() const { return *graph_; }

 private:
  GradientPass(Executor& executor, BoundGraph& graph)
      : executor_(&executor), graph_(&graph), capture_(graph) {}

  Executor* executor_;
  BoundGraph* graph_;
  GradientCapture capture_;
  std::vector<size_t> begin_;  // of each gradient of the capture, in elements
  size_t elements_ = 0;
};

}  // namespace act
