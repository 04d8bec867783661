// How much of the forward pass level L4 runs a second time.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace act {

// A plan that re-runs results of at most `bound` elements a sample (PassContext::rerun_elements).
struct RerunCandidate {
  int64_t bound = 0;
  double peak_bytes = 0, saved_bytes = 0;
};

// A compiled plan as a candidate: laid out, since nothing else tells where its peak comes to lie.
llvm::Expected<RerunCandidate> MeasureReruns(int64_t bound, const Plan& plan);

// The bound of the candidate with the least peak; among peaks that differ little, of that which stores least.
// At least one candidate.
int64_t ChooseReruns(const std::vector<RerunCandidate>& candidates);

}  // namespace act
