#include "passes/storage/choose_reruns.h"

#include <algorithm>
#include <utility>

#include "compiler/policy/compared_batches.h"
#include "passes/storage/recipes.h"
#include "runtime/base/error.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

constexpr double kAlike = 1.15;  // peaks at most so many times the least differ little
// Products between anchors: of one residual block, of three, of six (docs/levels.md).
constexpr int64_t kSpacings[] = {3, 9, 18};

}  // namespace

std::vector<RerunCandidate> RerunChoices(const Graph& graph, const PassContext& context) {
  std::vector<RerunCandidate> choices;
  const auto add = [&](int64_t spacing) {
    PassContext spaced = context;
    spaced.policy.rerun_spacing = spacing;
    for (const int64_t elements : RerunBounds(graph, spaced))
      if (elements > 0 || choices.empty()) choices.push_back({.spacing = spacing, .elements = elements});
  };
  if (context.policy.saved_limit == 0) {
    add(context.policy.rerun_spacing);
  } else {
    for (const int64_t spacing : kSpacings) add(spacing);
  }
  return choices;
}

llvm::Error MeasureReruns(RerunCandidate& candidate, const Plan& plan, const PassContext& context) {
  const int64_t batch = plan.fixed_batch ? plan.default_batch : std::max(plan.default_batch, kLeastPeakBatch);
  ACT_TRY(const MemoryLayout layout, LayOut(plan, batch));
  candidate.peak_bytes = static_cast<double>(layout.train.peak_bytes);
  for (const SavedEdge& edge : plan.edges) candidate.saved_bytes += static_cast<double>(edge.bytes.At(batch));
  candidate.variance = context.expected_variance;
  return llvm::Error::success();
}

size_t ChooseReruns(const std::vector<RerunCandidate>& candidates, bool by_variance) {
  double least = candidates.front().peak_bytes;
  for (const RerunCandidate& candidate : candidates) least = std::min(least, candidate.peak_bytes);
  const auto cost = [by_variance](const RerunCandidate& candidate) {
    return by_variance ? std::pair(candidate.variance, candidate.saved_bytes)
                       : std::pair(candidate.saved_bytes, candidate.variance);
  };
  size_t best = candidates.size();
  for (size_t c = 0; c < candidates.size(); ++c)
    if (candidates[c].peak_bytes <= kAlike * least &&
        (best == candidates.size() || cost(candidates[c]) < cost(candidates[best])))
      best = c;
  return best;
}

}  // namespace act
