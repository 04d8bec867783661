// actc --memory-limit: of a fixed list of steps, the one of least expected variance whose planned peak fits.
//
//   the list, best first -> RankedSteps::Choose -> the level and bits of one Compile
//
// The list does not depend on the limit: the exact step, then codes of fewer and fewer bits, each of them at L3 and,
// slower but smaller, at L4. Compilation is deterministic, and the search is a bisection of each level's part. So more
// memory never gives a worse step, even where fewer bits take a higher peak.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "compiler/ir/imported_model.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/memory/layout.h"

namespace act {

// A step of the list, and its peak at CompileOptions::batch: bytes of the device's arena, and on a machine without
// other memory of the host's, too.
struct RankedStep {
  int rank = 0;  // 0: the best
  std::string level;
  double bits = 0;  // CompileOptions::bits; 0: the level stores exactly
  int64_t peak_bytes = 0;

  // "L3 with --bits=4.5".
  std::string Name() const;
};

struct StepChoice {
  RankedStep chosen;
  // The step before it in the list, which does not fit; nothing if `chosen` is the best of all.
  std::optional<RankedStep> better;
};

// The list of a model's steps. Each is compiled when its peak is first asked for.
class RankedSteps {
 public:
  // `options.level` and `options.bits` are not read.
  RankedSteps(const ImportResult& model, const CompileOptions& options);
  ~RankedSteps();

  // Errors: Compile's of the exact step, and LayOut's; if no step fits, the least possible peak, what sets it, and the
  // largest batch that fits.
  llvm::Expected<StepChoice> Choose(int64_t limit_bytes);

 private:
  struct Compiled;
  enum class Outcome : uint8_t { kFits, kTooLarge, kTooFewBits };

  llvm::Expected<Outcome> Try(int rank, int64_t limit);
  llvm::Error Search(int level, int64_t limit);
  llvm::Error Infeasible(int64_t limit) const;

  const ImportResult& model_;
  CompileOptions options_;
  const Arenas arenas_;
  std::map<int, RankedStep> measured_;     // by rank; a peak of 0: its codes cannot take so few bits
  std::optional<RankedStep> chosen_;       // under the present limit
  std::unique_ptr<const Compiled> least_;  // of those measured
};

}  // namespace act
