// The numbers of one step, for comparison with another framework: loss, gradients and running
// statistics.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/train/gradient_capture.h"

namespace act {

// Writes a safetensors file after the step that `gradients` watched: "loss" (one f32), "grad.NAME"
// of each parameter and "buffer.NAME".
llvm::Error WriteStepDump(const std::string& path, double loss, const GradientCapture& gradients,
                          const Executor& executor);

}  // namespace act
