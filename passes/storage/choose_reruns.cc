#include "passes/storage/choose_reruns.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/storage/recipes.h"
#include "runtime/base/error.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

constexpr double kBarelyAlike = 1.01;  // L5's kAlike
// Products between two anchors, which span one residual block, three, or six (docs/levels.md).
constexpr int64_t kSpacings[] = {3, 9, 18};

// The batch size at which the peaks of a plan's candidates are compared. Without --batch it is 1, which says nothing of
// the batch of a run.
int64_t BatchOf(const Plan& plan, const Policy& policy) {
  const int64_t batch = plan.default_batch;
  if (plan.fixed_batch) return batch;
  if (policy.least_peak) return batch > 1 ? batch : kSmallPeakBatch;
  return std::max(batch, kLeastPeakBatch);
}

// Compiles the candidate, lays out its plan, and fills in its figures. If it exceeds the limit of
// what is stored, saved_bytes is the least possible.
llvm::Error TryReruns(RerunCandidate& candidate, const Graph& graph, const PassContext& context,
                      FinishTraining finish) {
  PassContext attempt = context;
  SetReruns(attempt, candidate);
  llvm::Expected<Plan> plan = finish(graph, attempt);
  if (!plan) {
    candidate.saved_bytes = static_cast<double>(attempt.least_saved_bytes);
    return plan.takeError();
  }
  const int64_t batch = BatchOf(*plan, context.policy);
  // Each of many candidates is laid out, so the slowest search is left out. It may lower the peak of the plan that is
  // taken by some percent more.
  ACT_TRY(const MemoryLayout layout,
          LayOut(*plan, batch, context.target, PackingOptions().Without(PackingHeuristic::kRepairSearch)));
  candidate.peak_bytes = static_cast<double>(layout.train.peak_bytes);
  for (const SavedEdge& edge : plan->edges)
    candidate.saved_bytes += static_cast<double>(edge.bytes.At(batch));
  candidate.variance = attempt.expected_variance;
  return llvm::Error::success();
}

double LeastPeak(const std::vector<RerunCandidate>& candidates) {
  double least = candidates.front().peak_bytes;
  for (const RerunCandidate& candidate : candidates) least = std::min(least, candidate.peak_bytes);
  return least;
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
  std::vector<int64_t> bounds{0};
  for (const int64_t size : SizesBeforeStatistics(graph)) bounds.push_back(size);
  for (const int64_t bound : bounds) {
    RerunCandidate fewer{
        .spacing = best.spacing, .elements = best.elements, .repeated_elements = bound, .least_peak = true};
    ACT_CHECK_OK(TryReruns(fewer, graph, context, finish));
    if (fewer.peak_bytes <= bytes) return fewer;
  }
  return best;
}

}  // namespace

void SetReruns(PassContext& context, const RerunCandidate& choice) {
  context.policy.rerun_spacing = choice.spacing;
  context.policy.least_peak = choice.least_peak;
  context.rerun_elements = choice.elements;
  context.repeated_elements = choice.repeated_elements;
}

RerunCandidate RerunsOf(const PassContext& context) {
  return {.spacing = context.policy.rerun_spacing,
          .elements = context.rerun_elements,
          .repeated_elements = context.repeated_elements,
          .least_peak = context.policy.least_peak};
}

std::vector<RerunCandidate> RerunChoices(const Graph& graph, const PassContext& context) {
  std::vector<RerunCandidate> choices;
  const auto add = [&](int64_t spacing) {
    PassContext spaced = context;
    spaced.policy.rerun_spacing = spacing;
    for (const int64_t elements : RerunBounds(graph, spaced))
      if (elements > 0 || choices.empty()) choices.push_back({.spacing = spacing, .elements = elements});
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

llvm::Error SearchReruns(const Graph& graph, PassContext& context, FinishTraining finish) {
  const bool limited = context.policy.saved_limit > 0;
  std::vector<RerunCandidate> candidates;
  double least = std::numeric_limits<double>::infinity();
  llvm::Error refused = llvm::Error::success();
  for (RerunCandidate& candidate : RerunChoices(graph, context)) {
    llvm::Error error = TryReruns(candidate, graph, context, finish);
    if (!error) {
      candidates.push_back(candidate);
    } else if (!limited || candidate.saved_bytes < least) {
      llvm::consumeError(std::exchange(refused, std::move(error)));
      least = candidate.saved_bytes;
      if (!limited) return refused;
    } else {
      llvm::consumeError(std::move(error));
    }
  }
  if (candidates.empty()) return refused;
  llvm::consumeError(std::move(refused));
  const bool least_peak = context.policy.least_peak;
  RerunCandidate best =
      candidates[ChooseReruns(candidates, limited || least_peak, least_peak ? kBarelyAlike : kAlike)];
  if (best.least_peak) {
    ACT_TRY(best, WithFewestRepeats(best, kBarelyAlike * LeastPeak(candidates), graph, context, finish));
  }
  SetReruns(context, best);
  return llvm::Error::success();
}

}  // namespace act
