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
#include "passes/storage/rerun_attempts.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr double kBarelyAlike = 1.01;  // L5's kAlike
// Products between two anchors, which span one residual block, three, or six (docs/levels.md).
constexpr int64_t kSpacings[] = {3, 9, 18};

// To re-run results of at most this part of the largest (those of squeeze-and-excitation blocks) saves next to nothing.
constexpr int64_t kSmall = 64;

constexpr double kWorkOfParts = .1;  // of the step without re-runs: what each step to smaller parts may add
// Codes may take this part of the level's bytes if the peak is lower by kWorthNoise: their variance about doubles.
constexpr double kFewerBytes = .85, kWorthNoise = 1.04;

struct Tried {
  RerunCandidate candidate;
  CandidatePlan made;
};

double LeastPeak(const std::vector<RerunCandidate>& candidates) {
  double least = candidates.front().peak_bytes;
  for (const RerunCandidate& candidate : candidates) least = std::min(least, candidate.peak_bytes);
  return least;
}

// The unsettled candidate of the lowest least peak; null: all are settled.
Tried* LowestUnsettled(std::vector<Tried>& tried) {
  Tried* lowest = nullptr;
  for (Tried& t : tried)
    if (!t.made.peak.Settled() && (!lowest || t.made.peak.least() < lowest->made.peak.least())) lowest = &t;
  return lowest;
}

double LeastOf(const std::vector<Tried>& tried, double (CandidatePeak::*bound)() const) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tried& t : tried) least = std::min(least, (t.made.peak.*bound)());
  return least;
}

// Sets the peaks of the candidates just so exactly that ChooseReruns takes the one that it would take if all were exact.
void SettlePeaks(std::vector<Tried>& tried, double alike) {
  const auto undecided = [&] {
    const double low = LeastOf(tried, &CandidatePeak::least), high = LeastOf(tried, &CandidatePeak::most);
    return std::any_of(tried.begin(), tried.end(), [&](const Tried& t) {
      return t.made.peak.most() > alike * low && t.made.peak.least() <= alike * high &&
             !t.made.peak.Settled();
    });
  };
  while (undecided()) LowestUnsettled(tried)->made.peak.Settle();
  const double high = LeastOf(tried, &CandidatePeak::most);
  for (Tried& t : tried)
    t.candidate.peak_bytes = t.made.peak.least() > alike * high ? t.made.peak.least() : t.made.peak.most();
}

double SettledLeastPeak(std::vector<Tried>& tried) {
  for (Tried* t; (t = LowestUnsettled(tried)) && t->made.peak.least() < LeastOf(tried, &CandidatePeak::most);)
    t->made.peak.Settle();
  return LeastOf(tried, &CandidatePeak::most);
}

// The sizes of the results that repeat-products can make twice, the largest first.
std::set<int64_t, std::greater<>> SizesBeforeStatistics(const Graph& graph) {
  std::set<int64_t, std::greater<>> sizes;
  for (const Node& node : graph.nodes)
    if (OpOf(node).norm.role == Normalization::Role::kStatistics)
      sizes.insert(graph.value(node.inputs[0]).type.Elements().At(1));
  return sizes;
}

// Lowers the peak of the best candidate further. Segments are re-run in parts, those of the largest results first, as
// long as that adds little work. Then codes take fewer bytes. A variant is taken if it lowers the peak by enough.
// Returns the peak.
llvm::Expected<double> LowerFurther(Tried& best, double bytes, const UnfinishedStep& step,
                                    RerunAttempts& attempts) {
  const Graph& graph = step.step.graph;
  const double most_work = kWorkOfParts * WorkOf(graph);
  // Takes the variant if it lowers the peak by the factor `gain`.
  const auto take = [&](const RerunCandidate& variant, double gain) -> llvm::Expected<bool> {
    RerunAttempt attempt = attempts.Take(variant);
    if (!attempt.made) return attempt.made.takeError();
    CandidatePeak& peak = attempt.made->peak;
    if (gain * peak.least() >= bytes || attempt.candidate.work > best.candidate.work + most_work)
      return false;
    peak.Settle();
    if (gain * peak.most() >= bytes) return false;
    bytes = peak.most();
    best = {attempt.candidate, std::move(*attempt.made)};
    return true;
  };
  std::vector<RerunCandidate> parted;
  for (const int64_t size : SizesBeforeStatistics(graph)) {
    if (best.candidate.elements == 0 || size > best.candidate.elements) continue;
    parted.push_back(best.candidate);
    parted.back().parted_elements = size;
  }
  const auto coarser = [&best] {
    RerunCandidate candidate = best.candidate;
    candidate.bytes_part = kFewerBytes;
    return candidate;
  };
  const Policy& policy = step.context.policy;
  const bool may_be_coarser = policy.mixes_levels && !policy.HasBudget();
  // Mostly the first in parts is not taken, and the coarser one of the same candidate is tried next.
  std::vector<RerunCandidate> likely(parted.begin(), parted.begin() + (parted.empty() ? 0 : 1));
  if (may_be_coarser) likely.push_back(coarser());
  attempts.CompileAhead(likely);
  for (const RerunCandidate& variant : parted) {
    ACT_TRY(const bool taken, take(variant, kBarelyAlike));
    if (!taken) break;
  }
  if (may_be_coarser) ACT_CHECK_OK(take(coarser(), kWorthNoise).takeError());
  return bytes;
}

// A product that is made twice takes time. So of `best`, which makes all twice that it can, the variant that makes
// the fewest twice and has a peak of at most `bytes`.
llvm::Error TakeFewestRepeats(Tried& best, double bytes, const UnfinishedStep& step,
                              const RerunPasses& passes) {
  std::vector<RerunCandidate> variants(1, best.candidate);
  variants[0].repeated_elements = 0;
  for (const int64_t size : SizesBeforeStatistics(step.step.graph)) {
    variants.push_back(best.candidate);
    variants.back().repeated_elements = size;
  }
  UnfinishedStep before_repeats = step;
  SetReruns(before_repeats.context, best.candidate);
  ACT_CHECK_OK(passes.to_repeats(before_repeats));
  RerunAttempts attempts(before_repeats, passes.from_repeats);
  const auto threads = static_cast<size_t>(omp_get_max_threads());
  for (size_t v = 0; v < variants.size(); ++v) {
    if (v % threads == 0)
      attempts.CompileAhead(std::span(variants).subspan(v, std::min(threads, variants.size() - v)));
    RerunAttempt attempt = attempts.Take(variants[v]);
    if (!attempt.made) return attempt.made.takeError();
    CandidatePeak& peak = attempt.made->peak;
    if (peak.least() > bytes) continue;
    peak.Estimate();
    if (peak.most() > bytes) peak.Settle();
    if (peak.most() > bytes) continue;
    best = {attempt.candidate, std::move(*attempt.made)};
    break;
  }
  return llvm::Error::success();
}

}  // namespace

void SetReruns(PassContext& context, const RerunCandidate& choice) {
  context.policy.rerun_spacing = choice.spacing;
  context.policy.least_peak = choice.least_peak;
  context.rerun_elements = choice.elements;
  context.repeated_elements = choice.repeated_elements;
  context.parted_elements = choice.parted_elements;
  context.policy.bytes_part = choice.bytes_part;
}

RerunCandidate RerunsOf(const PassContext& context) {
  return {.spacing = context.policy.rerun_spacing,
          .elements = context.rerun_elements,
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
  if (choices.empty()) choices = RerunChoices(step.step.graph, step.context);
  const bool limited = policy.saved_limit > 0;
  const double alike = policy.least_peak ? kBarelyAlike : kAlike;
  std::vector<Tried> tried;
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
  SettlePeaks(tried, alike);
  std::vector<RerunCandidate> candidates;
  candidates.reserve(tried.size());
  for (const Tried& t : tried) candidates.push_back(t.candidate);
  const size_t chosen = ChooseReruns(candidates, limited || policy.least_peak, alike);
  const double least = candidates[chosen].least_peak ? SettledLeastPeak(tried) : 0;
  Tried best = std::move(tried[chosen]);
  tried.clear();
  if (best.candidate.least_peak) {
    ACT_TRY(const double bytes, LowerFurther(best, least, step, attempts));
    ACT_CHECK_OK(TakeFewestRepeats(best, kBarelyAlike * bytes, step, passes));
  }
  SetReruns(step.context, best.candidate);
  return std::move(best.made.plan);
}

}  // namespace act
