#include "passes/storage/choose_reruns.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
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
  CandidatePeak peak;
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
    if (!t.peak.Settled() && (!lowest || t.peak.least() < lowest->peak.least())) lowest = &t;
  return lowest;
}

double LeastOf(const std::vector<Tried>& tried, double (CandidatePeak::*bound)() const) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tried& t : tried) least = std::min(least, (t.peak.*bound)());
  return least;
}

// Sets the peaks of the candidates just so exactly that ChooseReruns takes the one that it would take if all were exact.
void SettlePeaks(std::vector<Tried>& tried, double alike) {
  const auto undecided = [&] {
    const double low = LeastOf(tried, &CandidatePeak::least), high = LeastOf(tried, &CandidatePeak::most);
    return std::any_of(tried.begin(), tried.end(), [&](const Tried& t) {
      return t.peak.most() > alike * low && t.peak.least() <= alike * high && !t.peak.Settled();
    });
  };
  while (undecided()) LowestUnsettled(tried)->peak.Settle();
  const double high = LeastOf(tried, &CandidatePeak::most);
  for (Tried& t : tried)
    t.candidate.peak_bytes = t.peak.least() > alike * high ? t.peak.least() : t.peak.most();
}

double SettledLeastPeak(std::vector<Tried>& tried) {
  for (Tried* t; (t = LowestUnsettled(tried)) && t->peak.least() < LeastOf(tried, &CandidatePeak::most);)
    t->peak.Settle();
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

// A product that is made twice takes time. So of `best`, which makes all twice that it can, the variant that makes
// the fewest twice and has a peak of at most `bytes`.
llvm::Expected<RerunCandidate> WithFewestRepeats(const RerunCandidate& best, double bytes, const Graph& graph,
                                                 const PassContext& context, FinishTraining finish) {
  std::vector<RerunCandidate> variants(1, best);
  variants[0].repeated_elements = 0;
  for (const int64_t size : SizesBeforeStatistics(graph)) {
    variants.push_back(best);
    variants.back().repeated_elements = size;
  }
  RerunAttempts attempts(std::move(variants), graph, context, finish);
  while (std::optional<RerunAttempt> fewer = attempts.Next()) {
    ACT_TRY(CandidatePeak peak, std::move(fewer->peak));
    if (peak.least() > bytes) continue;
    peak.Estimate();
    if (peak.most() > bytes) peak.Settle();
    if (peak.most() <= bytes) return fewer->candidate;
  }
  return best;
}

// Lowers the peak of the best candidate further. Segments are re-run in parts, those of the largest results first, as
// long as that adds little work. Then codes take fewer bytes. A variant is taken if it lowers the peak by enough.
// Returns the peak.
llvm::Expected<double> LowerFurther(RerunCandidate& best, double bytes, const Graph& graph,
                                    const PassContext& context, FinishTraining finish) {
  const double most_work = kWorkOfParts * WorkOf(graph);
  // Takes the variant if it lowers the peak by the factor `gain`.
  const auto take = [&](RerunAttempt variant, double gain) -> llvm::Expected<bool> {
    ACT_TRY(CandidatePeak peak, std::move(variant.peak));
    if (gain * peak.least() >= bytes || variant.candidate.work > best.work + most_work) return false;
    peak.Settle();
    if (gain * peak.most() >= bytes) return false;
    best = variant.candidate;
    bytes = peak.most();
    return true;
  };
  std::vector<RerunCandidate> parted;
  for (const int64_t size : SizesBeforeStatistics(graph)) {
    if (best.elements == 0 || size > best.elements) continue;
    parted.push_back(best);
    parted.back().parted_elements = size;
  }
  RerunAttempts in_parts(std::move(parted), graph, context, finish);
  for (bool taken = true; taken;) {
    std::optional<RerunAttempt> next = in_parts.Next();
    if (!next) break;
    ACT_TRY(taken, take(std::move(*next), kBarelyAlike));
  }
  if (!context.policy.mixes_levels || context.policy.HasBudget()) return bytes;
  RerunCandidate coarser = best;
  coarser.bytes_part = kFewerBytes;
  RerunAttempts coarse({coarser}, graph, context, finish);
  ACT_CHECK_OK(take(*coarse.Next(), kWorthNoise).takeError());
  return bytes;
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

llvm::Error SearchReruns(const Graph& graph, PassContext& context, std::vector<RerunCandidate> choices,
                         FinishTraining finish) {
  if (choices.empty()) choices = RerunChoices(graph, context);
  const bool limited = context.policy.saved_limit > 0, least_peak = context.policy.least_peak;
  const double alike = least_peak ? kBarelyAlike : kAlike;
  std::vector<Tried> tried;
  double least_saved = std::numeric_limits<double>::infinity();
  llvm::Error refused = llvm::Error::success();
  RerunAttempts attempts(std::move(choices), graph, context, finish);
  attempts.CompileAll();
  while (std::optional<RerunAttempt> attempt = attempts.Next()) {
    llvm::Expected<CandidatePeak>& peak = attempt->peak;
    const RerunCandidate& candidate = attempt->candidate;
    if (peak) {
      // What is too high however it is packed is not packed.
      if (peak->least() <= alike * LeastOf(tried, &CandidatePeak::most)) peak->Estimate();
      tried.push_back({candidate, std::move(*peak)});
    } else if (!limited || candidate.saved_bytes < least_saved) {
      llvm::consumeError(std::exchange(refused, peak.takeError()));
      least_saved = candidate.saved_bytes;
      if (!limited) return refused;
    } else {
      llvm::consumeError(peak.takeError());
    }
  }
  if (tried.empty()) return refused;
  llvm::consumeError(std::move(refused));
  SettlePeaks(tried, alike);
  std::vector<RerunCandidate> candidates;
  candidates.reserve(tried.size());
  for (const Tried& t : tried) candidates.push_back(t.candidate);
  RerunCandidate best = candidates[ChooseReruns(candidates, limited || least_peak, alike)];
  if (best.least_peak) {
    ACT_TRY(const double bytes, LowerFurther(best, SettledLeastPeak(tried), graph, context, finish));
    ACT_TRY(best, WithFewestRepeats(best, kBarelyAlike * bytes, graph, context, finish));
  }
  SetReruns(context, best);
  return llvm::Error::success();
}

}  // namespace act
