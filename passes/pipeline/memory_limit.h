// actc --memory-limit: of a fixed list of steps, the one of least expected variance whose planned peak fits.
//
//   the list, best first -> ChooseStep -> the options of one Compile
//
// The list does not depend on the limit: the exact step, then codes of fewer and fewer bits, each of them at L3 and,
// slower but smaller, at L4. Compilation is deterministic, and the search is a bisection of each level's part. So more
// memory never gives a worse step, even where fewer bits take a higher peak.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ir/imported_model.h"
#include "passes/pipeline/pipeline.h"

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

// `options.level` and `options.bits` are not read. Errors: Compile's and LayOut's; if no step fits, the least possible
// peak, what sets it, and the largest batch that fits.
llvm::Expected<StepChoice> ChooseStep(const ImportResult& model, const CompileOptions& options,
                                      int64_t limit_bytes);

}  // namespace act
