// The training loop.
#pragma once

#include <llvm/Support/Error.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/schedule.h"

namespace act {

// What is done between two steps, when the first micro-batch of the next one has been drawn.
class BetweenSteps {
 public:
  virtual ~BetweenSteps() = default;
  struct Outcome {
    std::string line;          // of progress; empty: nothing to tell
    bool interrupted = false;  // by a signal: the run ends here, as if the step had not been begun
  };
  // `data` stands at that micro-batch, of `batch` samples; `state` is that of the step. The executor may be
  // bound anew.
  virtual llvm::Expected<Outcome> Before(Executor& executor, BatchSource& data, int64_t batch,
                                         const StepState& state) = 0;
};

struct TrainOptions {
  int64_t steps = 0;  // ends the run after so many steps; 0: no such bound
  int64_t epochs =
      0;  // ends it when so many epochs have ended (the rest of one that was begun counts); 0: no such bound
  Hyperparameters hyper = {};
  LearningRateSchedule schedule = {};
  std::string dump_step = {};  // where to write the first step's numbers; empty: nowhere
  const volatile std::sig_atomic_t* stop = nullptr;  // set by a signal: end after the step under way
  BetweenSteps* between = nullptr;
};

struct TrainResult {
  std::vector<double> losses;           // by step: the mean over its samples
  std::vector<double> step_seconds;     // forward, backward and update; the inputs are in the arena before
  std::vector<double> input_seconds;    // bringing them there
  std::vector<Evaluation> evaluations;  // by epoch, where there is evaluation data
  bool interrupted = false;
};

// A step is one update, of as many micro-batches as the plan says. It ends with its epoch.
//
// Trains from `position` on, in batches of the executor's layout, and leaves in it where the run ended. At
// least one of steps and epochs must bound the run. Errors: a step that fails, a loss that is not finite
// (naming the step; what was trained until then is not to be trusted). `eval_data` may be null.
llvm::Expected<TrainResult> Train(Executor& executor, BatchSource& data, BatchSource* eval_data,
                                  const TrainOptions& options, TrainPosition& position);

}  // namespace act
