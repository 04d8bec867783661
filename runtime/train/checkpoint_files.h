// The files of a run that saves to FILE.EXTENSION:
//
//   FILE.EXTENSION                  its last state, from the end of the run
//   FILE.step-00001200.EXTENSION    states on the way, by the steps done; eight digits or more
//   FILE.best.EXTENSION             the state with the best evaluation
//   NAME.xxxxxxxx.tmp               one of these while it is written: eight hexadecimal digits
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/checkpoint.h"

namespace act {

class CheckpointFiles {
 public:
  explicit CheckpointFiles(const std::string& path);

  const std::string& last() const { return path_; }
  std::string best() const;
  std::string AtStep(uint64_t step) const;

  struct Found {
    std::string path;
    TrainPosition position;
  };
  struct Search {
    std::vector<Found> found;          // from the oldest state to the newest
    std::vector<std::string> damaged;  // for each file that is no complete checkpoint: what is wrong
  };
  // The last state and those on the way that exist, in the order of the states that they hold.
  Search Find() const;
  // Removes what a run that was killed has left of a file that it was writing. No run may be saving.
  void RemoveTemporary() const;

 private:
  enum class Kind : uint8_t { kOther, kLast, kBest, kAtStep };
  // What the file `name` of the folder is to this run.
  Kind KindOf(const std::string& name) const;
  bool IsTemporary(const std::string& name) const;
  // The files of the folder, without it.
  std::vector<std::string> Names() const;
  std::string InFolder(const std::string& name) const;

  std::string path_;
  std::string folder_;            // with its slash; empty: the working folder
  std::string stem_, extension_;  // of the name in the folder; the extension with its dot
};

}  // namespace act
