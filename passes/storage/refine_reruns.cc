#include "passes/storage/refine_reruns.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "passes/storage/cut_forward.h"
#include "runtime/base/error.h"

namespace act {
namespace {

constexpr double kWorkOfParts = .1;  // of the step without re-runs: what each step to smaller parts may add
// Codes may take this part of the level's bytes if the peak is lower by kWorthNoise: their variance about doubles.
constexpr double kFewerBytes = .85, kWorthNoise = 1.04;
// How many numbers of re-run segments are tried, and the nodes of all these steps: networks that are known have fewer
// segments. In one of thousands of layers a compilation takes seconds.
constexpr int64_t kMostVariants = 24, kMostNodes = 120'000;
// What is left out may add noise. So that pays only if the step's products are at most this part of what they were.
constexpr double kLessWork = .99;

// The sizes of the results that repeat-products can make twice, the largest first.
std::set<int64_t, std::greater<>> SizesBeforeStatistics(const Graph& graph) {
  std::set<int64_t, std::greater<>> sizes;
  for (const Node& node : graph.nodes)
    if (OpOf(node).norm.role == Normalization::Role::kStatistics)
      sizes.insert(graph.value(node.inputs[0]).type.Elements().At(1));
  return sizes;
}

// The least peaks at a large batch, and at the report's if that is smaller than the one at which plans are compared.
llvm::Expected<std::vector<double>> OtherPeaks(const Plan& plan, TargetKind target) {
  std::vector<double> peaks;
  if (plan.fixed_batch) return peaks;
  std::vector<int64_t> batches{kTiledPeakBatch};
  if (plan.default_batch > 1 && plan.default_batch < kLeastPeakBatch) batches.push_back(plan.default_batch);
  for (const int64_t batch : batches) {
    ACT_TRY(const CandidatePeak peak, PeakAt(plan, batch, target));
    peaks.push_back(peak.least());
  }
  return peaks;
}

}  // namespace

llvm::Expected<double> LowerFurther(TriedRerun& best, double bytes, const UnfinishedStep& step,
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

llvm::Error TakeFewestRepeats(TriedRerun& best, double bytes, const UnfinishedStep& step,
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

llvm::Error TakeFewestReruns(TriedRerun& best, double least, const UnfinishedStep& step,
                             RerunAttempts& attempts) {
  if (best.candidate.elements == 0) return llvm::Error::success();
  const Graph& graph = step.step.graph;
  const auto count = static_cast<int64_t>(
      RerunSegments(graph, SavedValues(graph, step.context), best.candidate.spacing, best.candidate.elements)
          .size());
  const auto nodes = static_cast<int64_t>(graph.nodes.size());
  const int64_t tries = std::min(count, std::clamp<int64_t>(kMostNodes / nodes, 1, kMostVariants));
  std::vector<RerunCandidate> variants;
  for (int64_t v = 0; v < tries; ++v) {
    variants.push_back(best.candidate);
    variants.back().segments = v * count / tries;
  }
  attempts.CompileAhead(variants);
  std::vector<TriedRerun> tried;
  for (const RerunCandidate& variant : variants) {
    RerunAttempt attempt = attempts.Take(variant);
    if (!attempt.made) return attempt.made.takeError();
    if (attempt.candidate.work <= kLessWork * best.candidate.work)
      tried.push_back({attempt.candidate, std::move(*attempt.made)});
  }
  tried.push_back(std::move(best));
  // A run packs to within a thousandth of the least peak. Settled peaks may lie percents above what it takes.
  const double bytes = kBarelyAlike * std::min(least, LeastOf(tried, &CandidatePeak::least));
  ACT_TRY(const std::vector<double> others, OtherPeaks(tried.back().made.plan, step.context.target));
  for (TriedRerun& t : tried) {
    best = std::move(t);
    if (best.made.peak.least() > bytes) continue;
    ACT_TRY(const std::vector<double> its_others, OtherPeaks(best.made.plan, step.context.target));
    if (std::equal(others.begin(), others.end(), its_others.begin(),
                   [](double all, double some) { return some <= kBarelyAlike * all; }))
      break;
  }
  return llvm::Error::success();
}

}  // namespace act
