// Shows the progress of a run on standard error: one line that is redrawn on a terminal, plain
// lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace act {

class Progress {
 public:
  // `total_steps` is the number of steps of this run; 0: unknown.
  explicit Progress(int64_t total_steps);
  ~Progress() { Finish(); }

  // To be called after step `done` (1, 2, ...) of this run.
  void Step(int64_t done, double loss, int64_t samples);
  // Prints a line that stays, above the redrawn one.
  void Say(const std::string& line);
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  const bool terminal_;
  const int64_t total_steps_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  int64_t samples_ = 0;
  bool drawn_ = false;
};

}  // namespace act
