// What --save and its flags ask for: states on the way, the best one, and going on after a run was killed.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/file_lock.h"
#include "runtime/plan/plan.h"
#include "runtime/train/run_saver.h"
#include "tools/run_flags.h"

namespace act {

// What is wrong with the flags of saving by themselves, or "".
std::string CheckSavingUsage(const RunFlags& f);

class Saving {
 public:
  // Locks --save's files, removes what a killed run has left of a file, and finds the checkpoint from which --resume
  // goes on. Without --save it does nothing. Errors: another run saves there; states of another run that --resume
  // would take for this one's; no complete checkpoint among those that are there; accuracy of a model without labels.
  static llvm::Expected<Saving> Open(const RunFlags& f, const Plan& plan);

  // Where the run begins: the file of --load or the one that --resume has found. Empty: at step 0.
  const std::string& load() const { return load_; }
  // Saves while the run goes on. Null if no flag asks for that.
  std::unique_ptr<RunFollower> Follower(std::function<CodeLevels()> levels) const;

 private:
  std::unique_ptr<FileLock> lock_;
  std::string path_, load_;
  RunSaverOptions options_;
  bool continues_ = false;  // another run, by --load or --resume
  CheckpointFiles::Search earlier_;
};

}  // namespace act
