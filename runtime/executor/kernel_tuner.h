// Chooses the kernels of a processor by time: where several kernels accept a site, they are timed there once,
// and the choice is kept in a file for later runs, which so compute the same bits.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/executor/bound_graph.h"
#include "runtime/executor/choice_file.h"
#include "runtime/executor/kernel_timing.h"

namespace act {

struct KernelTunerOptions {
  TimedMachine machine = {};
  std::string path = {};  // of the file of choices; empty: they are not kept
  bool force = false;     // times the sites of the file again
  // After this, sites get the first kernel of the list. A site that is being timed still ends.
  double most_seconds = 10;
  SecondsClock clock = {};  // empty: a steady clock
  // Told about long work, and about a file that is damaged or cannot be written. May be null.
  std::function<void(const std::string& line)> say = {};
};

class KernelTuner {
 public:
  // Reads the file.
  explicit KernelTuner(KernelTunerOptions options);

  // The choice for each node of a graph that has its places, by position; empty where one kernel at most is
  // no reference. With `may_time`, sites that have none yet are timed, which overwrites the arena.
  llvm::Expected<std::vector<KernelChoice>> Choose(const BoundGraph& graph, const KernelRegistry& registry,
                                                   bool may_time);
  // Writes to the file what was chosen since the last call, and tells what was done.
  void Keep();

  // Sites of the graphs so far, each counted once.
  struct Summary {
    int64_t timed = 0, from_file = 0;  // with two kernels or more
    int64_t differ = 0;                // of these: the list's order would give another kernel
  };
  Summary Count() const;
  // "31 sites timed, 4 differ from the fixed order; FILE".
  std::string Describe() const;
  const std::string& path() const { return options_.path; }

 private:
  struct Site {
    std::string text;
    size_t position = 0;  // of the first node that has it
    int64_t bytes = 0;    // that all nodes that have it read and write
  };
  bool IsKnown(const std::string& site, const std::vector<KernelEntry>& entries) const;
  llvm::Error TimeSites(const BoundGraph& graph, const KernelRegistry& registry, std::vector<Site> sites);
  llvm::Expected<KernelChoice> TimeSite(const BoundGraph& graph, const KernelRegistry& registry,
                                        size_t position, TimeLimit limit);
  void Say(const std::string& line) const;

  KernelTunerOptions options_;
  ChoicesBySite choices_;
  std::set<std::string> used_, fresh_;  // sites: of the graphs so far; chosen by this run
  ChoicesBySite unkept_;
  double seconds_ = 0;  // spent on timing
  bool told_of_file_ = false;
};

}  // namespace act
