// Those who follow a run: they write down what happens, keep its state, or end it early.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/train/adaptation.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/code_watch.h"
#include "runtime/train/evaluate.h"

namespace act {

// What a step was.
struct StepRecord {
  uint64_t step = 0;   // done before it, by this run and those that it continues
  uint64_t epoch = 0;  // done before it
  int64_t samples = 0;
  double loss = 0;  // the mean over its samples
  double learning_rate = 0;
  // Forward, backward and update, with the inputs already in the arena; and writing the inputs there.
  double seconds = 0, input_seconds = 0;
  // Of all gradients together, before clipping; empty: the plan does not compute it.
  std::optional<double> gradient_norm = {};
};

// The functions are called in the order of steps, by the thread that trains. An error ends the run.
class RunFollower {
 public:
  virtual ~RunFollower() = default;

  // The loss of a step is known. The next step may be under way, so the arena may not be read.
  virtual llvm::Error AfterStep(const StepRecord& /*step*/) { return llvm::Error::success(); }

  // The first code or value of the run that is not finite, in `step`, which is still under way.
  virtual llvm::Error AfterNotFinite(uint64_t /*step*/, const NotFinite& /*found*/) {
    return llvm::Error::success();
  }

  // Levels were measured, and perhaps moved, between two steps.
  virtual llvm::Error AfterAdaptation(const Adaptation& /*adaptation*/) { return llvm::Error::success(); }

  // Asked between two steps. If yes, the device is waited for, and AtState is called.
  virtual bool WantsState(const TrainPosition& /*position*/) { return false; }
  // Nothing is under way: the tensors of the executor are those of `position`.
  virtual llvm::Error AtState(const Executor& /*executor*/, const TrainPosition& /*position*/) {
    return llvm::Error::success();
  }

  // After each evaluation. Nothing is under way, as in AtState.
  virtual llvm::Error AfterEvaluation(const Executor& /*executor*/, const TrainPosition& /*position*/,
                                      const Evaluation& /*evaluation*/) {
    return llvm::Error::success();
  }

  // What went wrong without ending the run, each once. Asked after AtState, AfterStep and AfterEvaluation.
  virtual std::vector<std::string> TakeWarnings() { return {}; }

  // Asked before the first step and between two steps: why the run should end now, for the user to read.
  // Empty: it goes on.
  virtual std::string EndReason() { return ""; }
};

}  // namespace act
