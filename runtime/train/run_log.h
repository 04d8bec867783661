// actrun --log: a line of JSON for each step of a run, and for what else happens. docs/cli.md has the keys.
//
// Each line is one write, so a run that is killed leaves whole lines. A machine that stops may leave a part of the
// last line; readers skip it. A disk that is full does not end the run: the lines that do not fit are left out, and
// never a part of one.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/train/run_follower.h"

namespace act {

class RunLog : public RunFollower {
 public:
  // A run that begins at step 0 replaces a log. One that continues another run appends to its log, from which it
  // removes the steps and events after `start`: those are about to be repeated. `header` is the first line;
  // fingerprint and seed in it tell whether the run is the same. `measured` (may be null) has the peak. Errors: a file
  // that cannot be written, or is no log, or is that of another run.
  static llvm::Expected<std::unique_ptr<RunLog>> Open(const std::string& path,
                                                      const llvm::json::Object& header,
                                                      const TrainPosition& start, const Executor* measured);
  ~RunLog() override;
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  llvm::Error AfterStep(const StepRecord& step) override;
  llvm::Error AfterEvaluation(const Executor& executor, const TrainPosition& position,
                              const Evaluation& evaluation) override;
  llvm::Error AfterNotFinite(uint64_t step, const NotFinite& found) override;
  llvm::Error AfterAdaptation(const Adaptation& adaptation) override;
  std::vector<std::string> TakeWarnings() override;

  // An event of any other kind: a line with "kind" and "step" (done before it) and `more`.
  void Event(const std::string& kind, uint64_t step, const llvm::json::Object& more);
  // Lines that could not be written so far.
  int64_t lost() const { return lost_; }

 private:
  RunLog(std::string path, int file, int64_t bytes, const Executor* measured)
      : path_(std::move(path)), file_(file), bytes_(bytes), measured_(measured) {}
  // `line` ends in a newline.
  void Write(const char* line, size_t length);

  const std::string path_;
  const int file_;
  int64_t bytes_;  // of the file; -1: a pipe or a device
  const Executor* const measured_;
  int64_t lost_ = 0;
  std::string failure_;  // of the first line that could not be written, until it was told
  std::array<char, 1024> line_;
};

}  // namespace act
