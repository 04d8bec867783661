// How much of the forward pass level L4 runs a second time, and from which anchors.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "passes/pass.h"
#include "runtime/plan/plan.h"

namespace act {

// A plan whose anchors stand Policy::rerun_spacing products apart, and which re-runs results of at most
// PassContext::rerun_elements a sample.
struct RerunCandidate {
  int64_t spacing = 0, elements = 0;
  double peak_bytes = 0, saved_bytes = 0;
  double variance = 0;  // PassContext::expected_variance
};

// What is worth trying: each size of results that makes a difference; where there is a bound of what is
// stored, which anchors of more levels may keep as well as close ones, with anchors at several distances.
// Only spacing and elements are set.
std::vector<RerunCandidate> RerunChoices(const Graph& graph, const PassContext& context);

// Which candidate has the least peak; among peaks that differ little, which stores least, or, where what is
// stored is bounded (by_variance), which has the least variance. At least one candidate.
size_t ChooseReruns(const std::vector<RerunCandidate>& candidates, bool by_variance);

// Compiles the rest of a training step from `graph`, with the re-runs that the context asks for.
using FinishTraining = llvm::function_ref<llvm::Expected<Plan>(const Graph& graph, PassContext& context)>;

// Compiles the step with each choice of re-runs to its end and lays it out, since nothing else
// tells where its peak comes to lie, then sets the best in the context. Errors: all choices exceed
// Policy::saved_limit; that of the one that stores least.
llvm::Error SearchReruns(const Graph& graph, PassContext& context, FinishTraining finish);

}  // namespace act
