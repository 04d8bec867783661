// What a run was, for its page: numbers by step in memory that does not grow with their number.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/run_follower.h"
#include "runtime/train/series.h"

namespace act {

class RunCurves : public RunFollower {
 public:
  llvm::Error AfterStep(const StepRecord& step) override;
  llvm::Error AfterEvaluation(const Executor& executor, const TrainPosition& position,
                              const Evaluation& evaluation) override;
  llvm::Error AfterNotFinite(uint64_t step, const NotFinite& found) override;

  Series loss, learning_rate, seconds, samples_per_second, gradient_norm;
  std::vector<std::pair<uint64_t, Evaluation>> evaluations;  // with the steps done before
  std::vector<std::string> warnings;                         // of numbers that are not finite
  uint64_t steps = 0;                                        // of this run
  double first_loss = 0, last_loss = 0;
};

}  // namespace act
