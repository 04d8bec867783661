// What actc --compare is asked for.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/import_onnx.h"
#include "passes/pipeline/pipeline.h"
#include "passes/pipeline/ranked_step.h"
#include "passes/pipeline/step_time.h"
#include "runtime/memory/cards.h"

namespace act {

// A row of the table: a level, or the step that a memory limit leaves.
struct ComparedEntry {
  std::string name;         // as it was given
  int64_t limit_bytes = 0;  // of auto:SIZE; 0: `name` is a level
};

struct CompareRequest {
  std::vector<ComparedEntry> entries;    // L0 first; the others in the order given
  int64_t fit_bytes = 0;                 // 0: nothing is searched
  std::string fit_dim = {};              // the axis to search over; empty: the batch
  int64_t share_bytes = 0;               // part of every peak, whatever the plan
  std::vector<int64_t> micro_batches{};  // into how many the batch is cut
  StepChoices choices = {};              // of auto:SIZE
  std::optional<StepRates> rates{};      // nothing: times are not estimated
  std::string rates_of{};                // "this machine"
  bool measure_rates = false;            // the caller sets `rates` to this machine's
  bool has_batch = false;                // --batch was given
  const Card* card = nullptr;            // of --target=cuda:CARD
};

// The texts of the flags; empty: not given.
struct CompareTexts {
  std::string levels, fit, share, micro_batches, rates;
};

// Its errors are wrong usage. The request's choices, has_batch and card are left to the caller.
llvm::Expected<CompareRequest> ParseCompare(const CompareTexts& texts, const ImportOptions& import,
                                            const CompileOptions& compile);

}  // namespace act
