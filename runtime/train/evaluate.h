// Loss and accuracy over a data set.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"

namespace act {

struct Evaluation {
  uint64_t epoch = 0;  // epochs trained before
  // The mean over the samples. Terms of it that are means over something else (labels that are not ignored, with the
  // weights of their classes) are so here, over all batches together. NaN where nothing counts.
  double loss = 0;
  // fraction of labels that are the argmax; models with class labels only
  std::optional<double> accuracy;
};

// Runs the plan's eval graph over one epoch of `data`. Parameters and buffers stay as they are.
llvm::Expected<Evaluation> Evaluate(Executor& executor, BatchSource& data, const StepState& state);

// Writes every input of a step graph that is read.
llvm::Error FillInputs(const BoundGraph& graph, BatchSource& data);

// The value of the first output, a float scalar.
llvm::Expected<double> LossOf(const BoundGraph& graph);
// Starts to read it. Returns the ticket for Device::FinishRead.
llvm::Expected<uint64_t> StartReadingLoss(const BoundGraph& graph);
// The same for any value that is a float scalar.
llvm::Expected<uint64_t> StartReadingNumber(const BoundGraph& graph, ValueId id);

}  // namespace act
