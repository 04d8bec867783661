// Chooses how much of the forward pass level L4 runs a second time, and from which anchors.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "passes/pass.h"
#include "runtime/plan/plan.h"

namespace act {

// A plan whose anchors stand Policy::rerun_spacing products apart. It re-runs results of at most
// PassContext::rerun_elements a sample.
struct RerunCandidate {
  int64_t spacing = 0, elements = 0;
  int64_t segments = std::numeric_limits<int64_t>::max();  // PassContext::rerun_segments
  int64_t repeated_elements = 0;                           // PassContext::repeated_elements
  int64_t parted_elements = 0;                             // PassContext::parted_elements
  double bytes_part = 1;                                   // Policy::bytes_part
  bool least_peak = false;                                 // Policy::least_peak
  double peak_bytes = 0, saved_bytes = 0;
  double variance = 0;  // PassContext::expected_variance
  double work = 0;      // operations of its products

  // Whether both are the same choice, whatever their figures are.
  bool operator==(const RerunCandidate& other) const {
    return spacing == other.spacing && elements == other.elements && segments == other.segments &&
           repeated_elements == other.repeated_elements && parted_elements == other.parted_elements &&
           bytes_part == other.bytes_part && least_peak == other.least_peak;
  }
};

// At L4, peaks of at most this many times the least count as equal.
inline constexpr double kAlike = 1.15;

// The candidates worth trying, one for each bound on the size of results that makes a difference.
// If what is stored is limited, there are candidates with several distances between anchors: fewer,
// finer anchors may meet the limit as well as closely spaced ones. L5's loops are made for 16 samples or more, so for
// a smaller batch the plans of L3 (spacing 0) and L4 are candidates, too. No figures are set.
std::vector<RerunCandidate> RerunChoices(const Graph& graph, const PassContext& context);

// Returns the candidate with the least peak: among peaks of at most `alike` times the least, the candidate
// that stores least, or, if what is stored is limited (by_variance), the one with the
// least variance. There must be at least one candidate.
size_t ChooseReruns(const std::vector<RerunCandidate>& candidates, bool by_variance, double alike = kAlike);

void SetReruns(PassContext& context, const RerunCandidate& choice);
// What is set, without figures.
RerunCandidate RerunsOf(const PassContext& context);

// A training step on which some of the passes have run.
struct UnfinishedStep {
  StepGraph step;
  PassContext context;
};

// Runs the passes that depend on the choice of re-runs, as it is set in the context (pass_table.h: Repeats).
struct RerunPasses {
  // Up to those that depend on which products are made twice.
  llvm::function_ref<llvm::Error(UnfinishedStep&)> to_repeats;
  // All others.
  llvm::function_ref<llvm::Expected<Plan>(UnfinishedStep&)> from_repeats;
};

// Compiles the step to the end with each choice of re-runs and lays it out, since nothing else
// tells where its peak lies. Then sets the best choice in the context, and returns its plan. Fails if all choices
// exceed Policy::saved_limit, with the error of the one that stores least. Without `choices`, they are RerunChoices.
llvm::Expected<Plan> SearchReruns(UnfinishedStep& step, std::vector<RerunCandidate> choices,
                                  const RerunPasses& passes);

}  // namespace act
