// Saves a run while it goes on, so that a process that is killed loses little.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/checkpoint_files.h"
#include "runtime/train/run_follower.h"

namespace act {

// When to save: after each `steps` steps of the run (0: not by steps), counted from step 0; or once `time` has
// passed since the last time (0: not by time).
struct SaveInterval {
  uint64_t steps = 0;
  std::chrono::seconds time{0};
};

enum class BestBy : uint8_t { kNone, kLoss, kAccuracy };

struct RunSaverOptions {
  SaveInterval every = {};
  size_t keep = 2;  // states on the way that stay; at least 1
  BestBy best = BestBy::kNone;
  std::function<CodeLevels()> levels = {};  // of --adapt-every, when a state is written
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// Writes the states on the way and the best one. A state that cannot be written is a warning, and the run goes on:
// its next state may find room.
class RunSaver : public RunFollower {
 public:
  RunSaver(CheckpointFiles files, RunSaverOptions options);

  // Goes on with the files of the run that this one continues: its states on the way count among those that stay, and
  // its best evaluation stays until a better one. Without it, files are replaced as they are written.
  void Continue(const CheckpointFiles::Search& search);

  bool WantsState(const TrainPosition& position) override;
  llvm::Error AtState(const Executor& executor, const TrainPosition& position) override;
  llvm::Error AfterEvaluation(const Executor& executor, const TrainPosition& position,
                              const Evaluation& evaluation) override;
  std::vector<std::string> TakeWarnings() override { return std::exchange(warnings_, {}); }

 private:
  // Whether the state is on the disk now.
  bool Save(const std::string& path, const Executor& executor, const TrainPosition& position);
  void RemoveOlder();

  const CheckpointFiles files_;
  const RunSaverOptions options_;
  std::chrono::steady_clock::time_point last_;  // when the last state was due
  std::deque<std::string> kept_;                // states on the way on the disk, the oldest first
  uint64_t saved_step_ = 0;                     // of the last state on the disk
  std::optional<double> best_;                  // of the best state on the disk
  std::vector<std::string> warnings_;
};

}  // namespace act
