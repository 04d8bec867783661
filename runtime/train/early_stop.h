// actrun --patience: ends a run whose evaluations no longer improve.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/run_follower.h"

namespace act {

enum class Figure : uint8_t { kLoss, kAccuracy };

// The state is the position's own (BestEvaluations), so a resumed run ends where the uninterrupted one would.
class EarlyStop : public RunFollower {
 public:
  // Ends the run once `patience` evaluations in a row have not improved the figure. `start` is where the run
  // begins: one that begins with that many ends at once.
  EarlyStop(int64_t patience, Figure figure, const TrainPosition& start);
  llvm::Error AfterEvaluation(const Executor& executor, const TrainPosition& position,
                              const Evaluation& evaluation) override;
  std::string EndReason() override;

 private:
  const int64_t patience_;
  const Figure figure_;
  BestFigure state_;
};

}  // namespace act
