#include "passes/storage/choose_reruns.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/storage/recipes.h"
#include "passes/storage/refine_reruns.h"
#include "passes/storage/rerun_attempts.h"
#include "runtime/base/error.h"

namespace act {
namespace {

// Products between two anchors, which span one residual block, three, or six (docs/levels.md).
constexpr int64_t kSpacings[] = {3, 9, 18};

// To re-run results of at most this part of the largest (those of squeeze-and-excitation blocks) saves next to nothing.
constexpr int64_t kSmall = 64;
constexpr double kAnyPeak = std::numeric_limits<double>::infinity();

double LeastPeak(const std::vector<RerunCandidate>& candidates) {
  double least = candidates.front().peak_bytes;
  for (const RerunCandidate& candidate : candidates) least = std::min(least, candidate.peak_bytes);
  return least;
}

// Sets the peaks of the candidates just so exactly that ChooseReruns takes the one that it would take if all were exact.
void SettlePeaks(std::vector<TriedRerun>& tried, double alike) {
  const auto undecided = [&] {
    const double low = LeastOf(tried, &CandidatePeak::least), high = LeastOf(tried, &CandidatePeak::most);
    return std::any_of(tried.begin(), tried.end(), [&](const TriedRerun& t) {
      return t.made.peak.most() > alike * low && t.made.peak.least() <= alike * high &&
             !t.made.peak.Settled();
    });
  };
  while (undecided()) LowestUnsettled(tried)->made.peak.Settle();
  const double high = LeastOf(tried, &CandidatePeak::most);
  for (TriedRerun& t : tried)
    t.candidate.peak_bytes = t.made.peak.least() > alike * high ? t.made.peak.least() : t.made.peak.most();
}

// The candidate of the least peak that re-runs and is not L5's; null: there is none.
TriedRerun* LowestOfL4(std::vector<TriedRerun>& tried) {
  TriedRerun* lowest = nullptr;
  for (TriedRerun& t : tried)
    if (!t.candidate.least_peak && t.candidate.elements > 0 &&
        (!lowest || t.made.peak.least() < lowest->made.peak.least()))
      lowest = &t;
  return lowest;
}

}  // namespace

void SetReruns(PassContext& context, const RerunCandidate& choice) {
  context.policy.rerun_spacing = choice.spacing;
  context.policy.least_peak = choice.least_peak;
  context.rerun_elements = choice.elements;
  context.rerun_segments = choice.segments;
  context.repeated_elements = choice.repeated_elements;
  context.parted_elements = choice.parted_elements;
  context.policy.bytes_part = choice.bytes_part;
}

RerunCandidate RerunsOf(const PassContext& context) {
  return {.spacing = context.policy.rerun_spacing,
          .elements = context.rerun_elements,
          .segments = context.rerun_segments,
          .repeated_elements = context.repeated_elements,
          .parted_elements = context.parted_elements,
          .bytes_part = context.policy.bytes_part,
          .least_peak = context.policy.least_peak};
}

std::vector<RerunCandidate> RerunChoices(const Graph& graph, const PassContext& context) {
  std::vector<RerunCandidate> choices;
  const auto add = [&](int64_t spacing) {
    PassContext spaced = context;
    spaced.policy.rerun_spacing = spacing;
    const std::set<int64_t> bounds = RerunBounds(graph, spaced);
    const int64_t small = *bounds.rbegin() / kSmall;
    for (const int64_t elements : bounds)
      if (elements > small || choices.empty()) choices.push_back({.spacing = spacing, .elements = elements});
  };
  if (context.policy.saved_limit == 0 && !context.policy.least_peak) {
    add(context.policy.rerun_spacing);
  } else {
    for (const int64_t spacing : kSpacings) add(spacing);
  }
  if (!context.policy.least_peak) return choices;
  for (RerunCandidate& choice : choices) choice.repeated_elements = 1, choice.least_peak = true;
  if (context.policy.batch < kSmallPeakBatch) {
    PassContext other = context;
    other.policy.least_peak = false;
    for (const RerunCandidate& of_l4 : RerunChoices(graph, other)) choices.push_back(of_l4);
    choices.push_back({});  // L3's
  }
  return choices;
}

size_t ChooseReruns(const std::vector<RerunCandidate>& candidates, bool by_variance, double alike) {
  const double least = LeastPeak(candidates);
  const auto cost = [by_variance](const RerunCandidate& candidate) {
    return by_variance ? std::pair(candidate.variance, candidate.saved_bytes)
                       : std::pair(candidate.saved_bytes, candidate.variance);
  };
  size_t best = candidates.size();
  for (size_t c = 0; c < candidates.size(); ++c)
    if (candidates[c].peak_bytes <= alike * least &&
        (best == candidates.size() || cost(candidates[c]) < cost(candidates[best])))
      best = c;
  return best;
}

llvm::Expected<Plan> SearchReruns(UnfinishedStep& step, std::vector<RerunCandidate> choices,
                                  const RerunPasses& passes) {
  const Policy& policy = step.context.policy;
  const bool chosen_already = !choices.empty();
  if (choices.empty()) choices = RerunChoices(step.step.graph, step.context);
  const bool limited = policy.saved_limit > 0;
  const double alike = policy.least_peak ? kBarelyAlike : kAlike;
  std::vector<TriedRerun> tried;
  double least_saved = std::numeric_limits<double>::infinity();
  llvm::Error refused = llvm::Error::success();
  const auto finish = [&passes](UnfinishedStep& attempt) -> llvm::Expected<Plan> {
    ACT_CHECK_OK(passes.to_repeats(attempt));
    return passes.from_repeats(attempt);
  };
  RerunAttempts attempts(step, finish);
  attempts.CompileAhead(choices);
  for (const RerunCandidate& choice : choices) {
    RerunAttempt attempt = attempts.Take(choice);
    if (attempt.made) {
      CandidatePeak& peak = attempt.made->peak;
      // What is too high however it is packed is not packed.
      if (peak.least() <= alike * LeastOf(tried, &CandidatePeak::most)) peak.Estimate();
      tried.push_back({attempt.candidate, std::move(*attempt.made)});
    } else if (!limited || attempt.candidate.saved_bytes < least_saved) {
      llvm::consumeError(std::exchange(refused, attempt.made.takeError()));
      least_saved = attempt.candidate.saved_bytes;
      if (!limited) return refused;
    } else {
      llvm::consumeError(attempt.made.takeError());
    }
  }
  if (tried.empty()) return refused;
  llvm::consumeError(std::move(refused));
  const bool may_refine = !limited && !chosen_already;
  TriedRerun* const of_l4 = policy.least_peak && may_refine ? LowestOfL4(tried) : nullptr;
  if (of_l4) ACT_CHECK_OK(TakeFewestReruns(*of_l4, kAnyPeak, step, attempts));
  SettlePeaks(tried, alike);
  std::vector<RerunCandidate> candidates;
  candidates.reserve(tried.size());
  for (const TriedRerun& t : tried) candidates.push_back(t.candidate);
  const size_t chosen = ChooseReruns(candidates, limited || policy.least_peak, alike);
  const double least = candidates[chosen].least_peak ? SettledLeastPeak(tried) : 0;
  TriedRerun best = std::move(tried[chosen]);
  tried.clear();
  if (best.candidate.least_peak) {
    ACT_TRY(const double bytes, LowerFurther(best, least, step, attempts));
    ACT_CHECK_OK(TakeFewestRepeats(best, kBarelyAlike * bytes, step, passes));
    if (may_refine) ACT_CHECK_OK(TakeFewestReruns(best, bytes, step, attempts));
  } else if (may_refine && !policy.least_peak) {
    ACT_CHECK_OK(TakeFewestReruns(best, kAnyPeak, step, attempts));
  }
  SetReruns(step.context, best.candidate);
  return std::move(best.made.plan);
}

}  // namespace act
