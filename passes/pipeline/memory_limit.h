// actc --memory-limit: of a fixed list of steps, the one of least expected variance whose planned peak fits.
//
//   the list, best first -> RankedSteps::Choose -> the options of one Compile
//
// The list does not depend on the limit: the exact step, then codes of fewer and fewer bits, each of them at L3 and,
// slower but smaller, at L4; where they are allowed, each also in bfloat16 and with 8-bit state of the optimizer.
// Compilation is deterministic, and the search is a bisection of each column of steps that differ in bits alone. So
// more memory never gives a worse step, even where fewer bits take a higher peak.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/imported_model.h"
#include "passes/pipeline/pipeline.h"
#include "passes/pipeline/ranked_step.h"
#include "runtime/memory/layout.h"

namespace act {

struct StepChoice {
  RankedStep chosen;
  // The last possible step before it in the list, which does not fit; nothing if `chosen` is the best of all.
  std::optional<RankedStep> better;
};

// The list of a model's steps. Each is compiled when its peak is first asked for.
class RankedSteps {
 public:
  // `options.level` and `options.bits` are not read.
  RankedSteps(const ImportResult& model, const CompileOptions& options, const StepChoices& choices = {});
  ~RankedSteps();

  // Errors: Compile's of the exact step, and LayOut's; if no step fits, the least possible peak, what sets it, and what
  // would help: the largest batch that fits, and choices that are not allowed.
  llvm::Expected<StepChoice> Choose(int64_t limit_bytes);

 private:
  struct Compiled;
  enum class Outcome : uint8_t { kFits, kTooLarge, kTooFewBits };

  llvm::Expected<Outcome> Try(int rank, int64_t limit);
  llvm::Expected<Compiled> CompileStep(const RankedStep& step) const;
  llvm::Error Search(const std::vector<int>& column, int64_t limit);
  llvm::Error Infeasible(int64_t limit) const;
  std::string OtherChoices(int64_t limit) const;

  const ImportResult& model_;
  CompileOptions options_;
  const StepChoices choices_;
  const Arenas arenas_;
  const std::vector<RankedStep> steps_;
  const std::vector<std::vector<int>> columns_;
  std::map<int, RankedStep> measured_;     // by rank; a peak of 0: its codes cannot take so few bits
  std::optional<RankedStep> chosen_;       // under the present limit
  std::unique_ptr<const Compiled> least_;  // of those measured
};

}  // namespace act
