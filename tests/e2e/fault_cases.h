// Command lines whose calls of the system fail in turn, and what must hold after each.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/fault_server.h"

namespace act::e2e {

struct FaultCase {
  std::string name;
  std::vector<std::string> args;
  std::vector<std::string> outputs;  // files that it writes into the working folder
};

// A case by its name. The tools on a small network: `actc`, a compilation with every kind of report; `actplan`, a
// look at a plan; `actrun`, training with data, evaluation and every kind of output; `actrun_load`, one that goes
// on from a checkpoint; `actrun_tune`, which times kernels; `actrun_threads`, on two threads.
// It is in a folder of its own. Before each run, another file is at each path of an output.
class FaultBench {
 public:
  explicit FaultBench(const std::string& case_name);

  // Calls of each kind in a run without a fault.
  const std::map<std::string, int64_t>& calls() const { return calls_; }
  // Runs with one fault, and expects that
  // * the run is done, and every output is complete; or it is refused: exit code 1 and one error line;
  //   or, where `ends_by` is a signal, that signal ended it;
  // * each output is complete or as it was before;
  // * no other file is left.
  // Returns the exit code.
  int Expect(const Fault& fault, int ends_by = 0);
  // The same, for each call of a kind, or for every `stride`-th from `first` on. Returns how many runs were done.
  int64_t ExpectEach(const std::string& kind, const std::string& action, int64_t value, int64_t stride = 1,
                     int64_t first = 1);
  std::vector<std::string> Trace();
  // What the last run printed.
  const Outcome& last() const { return last_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  void PutOldFiles();
  bool IsKnown(const std::string& name) const;
  // What is wrong with the files after a run, or "".
  std::string CheckFiles(bool done, const Fault& fault) const;
  // `other_numbers`: a file that can be read will do.
  bool IsComplete(const std::string& output, bool other_numbers) const;

  ScratchFolder folder_;
  FaultCase case_;
  std::optional<FaultServer> server_;
  std::set<std::string> known_;  // names in the folder
  std::map<std::string, std::string> complete_;
  std::map<std::string, int64_t> calls_;
  Outcome last_;
};

}  // namespace act::e2e
