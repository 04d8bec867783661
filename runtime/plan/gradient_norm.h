// Where a step leaves the norm of its gradients.
#pragma once

#include "runtime/plan/plan.h"

namespace act {

// The f32[] with the norm of all gradients together, before clipping: the output after the loss, where the
// plan updates parameters (without an optimizer, gradients are there). kNoValue: the plan was compiled
// without --grad-norm and --clip-norm. The step that updates has it, not each micro-batch.
inline ValueId GradientNormOf(const Plan& plan) {
  const std::vector<ValueId>& outputs = plan.train.graph.outputs;
  return plan.optimizer != "none" && outputs.size() > 1 ? outputs[1] : kNoValue;
}

}  // namespace act
