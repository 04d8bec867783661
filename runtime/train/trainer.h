// The training loop.
#pragma once

#include <llvm/Support/Error.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"
#include "runtime/train/adaptation.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/evaluate.h"
#include "runtime/train/run_follower.h"
#include "runtime/train/schedule.h"

namespace act {

// What happens between two steps, after the first micro-batch of the next step has been drawn.
class BetweenSteps {
 public:
  virtual ~BetweenSteps() = default;
  struct Outcome {
    // for the progress display; empty: nothing to show
    std::string line;
    // by a signal: the run ends here, as if the step had not begun
    bool interrupted = false;
    std::optional<Adaptation> adaptation = {};
  };
  // `data` stands at that micro-batch, of `batch` samples. `state` is that of the step. May bind
  // the executor again.
  virtual llvm::Expected<Outcome> Before(Executor& executor, BatchSource& data, int64_t batch,
                                         const StepState& state) = 0;
};

struct TrainOptions {
  int64_t steps = 0;  // ends the run after this many steps; 0: no limit
  // Ends the run after this many epochs (the rest of one that was begun counts as one); 0: no
  // limit.
  int64_t epochs = 0;
  // Whether both count from the start of training, and not from the position at which this run begins. A run whose
  // steps or epochs are done already then ends at once.
  bool from_start = false;
  Hyperparameters hyper = {};
  LearningRateSchedule schedule = {};
  std::string dump_step = {};  // where to write the first step's numbers; empty: nowhere
  // set by a signal: end after the current step
  const volatile std::sig_atomic_t* stop = nullptr;
  BetweenSteps* between = nullptr;
  std::vector<RunFollower*> followers = {};
};

struct TrainResult {
  std::vector<double> losses;  // by step: the mean over its samples
  // forward, backward and update, with the inputs already in the arena
  std::vector<double> step_seconds;
  std::vector<double> input_seconds;    // writing the inputs there
  std::vector<Evaluation> evaluations;  // by epoch, where there is evaluation data
  bool interrupted = false;
  std::string end_reason;  // of the follower that ended the run early; else empty
};

// A step is one update, from as many micro-batches as the plan says. It ends with its epoch.
//
// Trains from `position` on, in batches of the executor's layout, and stores in `position` where
// the run ended. At least one of steps and epochs must limit the run. `eval_data` may be null.
// Errors: a step that fails, a loss that is not finite. That error names the step; what was trained
// until then is not to be trusted.
llvm::Expected<TrainResult> Train(Executor& executor, BatchSource& data, BatchSource* eval_data,
                                  const TrainOptions& options, TrainPosition& position);

}  // namespace act
