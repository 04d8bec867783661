// What --log, --report-html and --patience ask for.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/train/early_stop.h"
#include "runtime/train/run_curves.h"
#include "runtime/train/run_log.h"
#include "runtime/train/trainer.h"
#include "tools/run_flags.h"

namespace act {

// What is wrong with these flags by themselves, or "".
std::string CheckRunLogUsage(const RunFlags& f);

class RunWatch {
 public:
  struct Facts {
    const Plan& plan;  // as compiled: the executor's may have other levels
    const Executor& executor;
    const TrainPosition& start;
    const Hyperparameters& hyper;
    std::string device;
    int threads = 1;
  };
  // Opens the log. The executor must outlive this. Errors: RunLog::Open's; --patience-of=accuracy of a model
  // without labels.
  static llvm::Expected<RunWatch> Open(const RunFlags& f, const Facts& facts);

  void AddTo(std::vector<RunFollower*>& followers) const;
  // The log's last line, and the line about the end on standard error where that was not the one asked for.
  void Ended(const TrainResult& result, const TrainPosition& position);
  // The same for a run that failed, and its page. Returns the error.
  llvm::Error Failed(llvm::Error error, const TrainPosition& position);
  llvm::Error WritePage() const;

 private:
  void End(const std::string& why, const std::string& text, uint64_t step);

  std::string page_path_, title_, end_;
  std::vector<std::pair<std::string, std::string>> rows_;
  const Executor* executor_ = nullptr;
  // Null where the flag is not given.
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<RunCurves> curves_;
  std::unique_ptr<EarlyStop> early_stop_;
};

}  // namespace act
