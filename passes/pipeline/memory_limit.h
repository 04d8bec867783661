// actc --memory-limit: of a fixed list of steps, the one of least expected variance whose planned peak fits.
//
//   the list, best first -> RankedSteps::Choose -> the options of one Compile
//
// The list does not depend on the limit: the exact step, then codes of 8 bits for more and more of what is saved, then
// codes of fewer and fewer bits, each of them at L3 and, slower but smaller, at L4 and L5; where they are allowed, each
// also in bfloat16, with 8-bit state of the optimizer, and with codes in the host's memory. Compilation is
// deterministic, and the search is a bisection of each column of steps that differ in their codes alone. So more memory
// never gives a worse step, even where fewer bits take a higher peak.
//
// Finding the re-runs of L4 and L5 takes longer than all other compilations together. So those of L5 are found once, at
// the level's own bits, and all of its steps have them. Those of L4 are found at the most bits and at the middle of the
// list, and its other steps choose between the two. A step with codes on the host has the re-runs of the step
// without, and so computes the same numbers.
//
// Packing a step takes as long as compiling it. Bounds mostly tell whether it fits, and only what they leave open is
// packed to the end.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/imported_model.h"
#include "passes/pipeline/pipeline.h"
#include "passes/pipeline/ranked_step.h"
#include "passes/pipeline/step_peak.h"
#include "runtime/memory/layout.h"

namespace act {

struct StepChoice {
  RankedStep chosen;
  // The last possible step before it in the list, which does not fit; nothing if `chosen` is the best of all.
  std::optional<RankedStep> better;
};

// What a part of a step bought: the step without it takes `without.peak_bytes`.
struct StepPart {
  std::string name;  // "re-runs"
  RankedStep without;
};

// The list of a model's steps. Each is compiled when its peak is first asked for.
class RankedSteps {
 public:
  // `options.level` and `options.bits` are not read. The model must live as long.
  RankedSteps(const ImportResult& model, const CompileOptions& options, const StepChoices& choices = {});
  ~RankedSteps();

  // Errors: Compile's of the exact step, and LayOut's; if no step fits, the least possible peak, what sets it, and what
  // would help: the largest batch that fits, and choices that are not allowed.
  llvm::Expected<StepChoice> Choose(int64_t limit_bytes);
  // The parts of a step that was chosen. Without each of them there is another step of the list.
  llvm::Expected<std::vector<StepPart>> PartsOf(const RankedStep& chosen);

 private:
  struct Compiled;
  enum class Outcome : uint8_t { kFits, kTooLarge, kImpossible };

  // A step that was compiled.
  struct Measured {
    RankedStep step;
    std::optional<StepPeak> peak;  // nothing: there is no such step
  };

  llvm::Expected<Outcome> Try(int rank, int64_t limit);
  llvm::Expected<Measured*> Measure(int rank);
  llvm::Expected<std::optional<RankedStep>> WithPeak(int rank);
  int RankOf(const RankedStep& step) const;
  llvm::Expected<std::vector<RerunCandidate>> RerunsFor(const RankedStep& step);
  llvm::Expected<Compiled> CompileStep(const RankedStep& step) const;
  llvm::Expected<Compiled> LeastStep();
  llvm::Expected<RankedStep> WithFewestSwaps(const RankedStep& all, int64_t limit) const;
  llvm::Error Search(const std::vector<int>& column, int64_t limit);
  size_t FirstWithCodesForAll(const std::vector<int>& column) const;
  llvm::Error Infeasible(int64_t limit);
  std::string OtherChoices(const Compiled& least, int64_t limit);

  const ImportResult& model_;
  CompileOptions options_;
  const StepChoices choices_;
  const Arenas arenas_;
  const std::vector<RankedStep> steps_;
  const std::vector<std::vector<int>> columns_;
  std::map<int, Measured> measured_;                              // by rank
  std::optional<std::vector<RerunCandidate>> least_peak_reruns_;  // of all steps of L5
  std::optional<RankedStep> chosen_;                              // under the present limit
};

}  // namespace act
