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
#include "runtime/memory/step_sizes.h"

namespace act {
namespace {

constexpr double kBarelyAlike = 1.01;  // L5's kAlike
// Products between two anchors, which span one residual block, three, or six (docs/levels.md).
constexpr int64_t kSpacings[] = {3, 9, 18};

constexpr double kWorkOfParts = .1;  // of the step without re-runs: what each step to smaller parts may add
// Codes may take this part of the level's bytes if the peak is lower by kWorthNoise: their variance about doubles.
constexpr double kFewerBytes = .85, kWorthNoise = 1.04;

// The batch size at which the peaks of a plan's candidates are compared. Without --batch it is 1, which says nothing of
// the batch of a run.
int64_t BatchOf(const Plan& plan, const Policy& policy) {
  const int64_t batch = plan.default_batch;
  if (plan.fixed_batch) return batch;
  if (policy.least_peak) return batch > 1 ? batch : kSmallPeakBatch;
  return std::max(batch, kLeastPeakBatch);
}

// A step's peak, as exactly as it was asked for: packing takes longer than measuring, and searching longer than both.
class Peak {
 public:
  explicit Peak(MemoryLayout sizes)
      : sizes_(std::move(sizes)), least_(static_cast<double>(sizes_.train.lower_bound_bytes)) {}

  double least() const { return least_; }
  double most() const { return most_; }
  bool Settled() const { return least_ == most_; }
  void Estimate() { most_ = Pack(QuickPacking()); }
  // Each of many candidates may be packed, so the slowest search is left out. It may lower the peak of the plan that is
  // taken by some percent more.
  void Settle() {
    if (!Settled()) least_ = most_ = Pack(PackingOptions().Without(PackingHeuristic::kEjectionSearch));
  }

 private:
  double Pack(const PackingOptions& options) const {
    StepLayout layout = sizes_.train;
    PlaceTransients(sizes_.persistent_bytes, options, layout);
    return static_cast<double>(layout.peak_bytes);
  }

  MemoryLayout sizes_;
  double least_, most_ = std::numeric_limits<double>::infinity();
};

struct Tried {
  RerunCandidate candidate;
  Peak peak;
};

// The operations of a step's products, at one batch size.
double WorkOf(const Graph& graph) {
  double work = 0;
  for (const Node& node : graph.nodes)
    if (const OpDef* const op = FindOp(node.op); op && op->product != Product::kNone && op->flops)
      work += static_cast<double>(op->flops(node, graph).At(kComparedBatch));
  return work;
}

// Compiles the candidate, measures its plan, and fills in its figures but for the peak. If it exceeds the limit of
// what is stored, saved_bytes is the least possible.
llvm::Expected<Peak> TryReruns(RerunCandidate& candidate, const Graph& graph, const PassContext& context,
                               FinishTraining finish) {
  PassContext attempt = context;
  SetReruns(attempt, candidate);
  llvm::Expected<Plan> plan = finish(graph, attempt);
  if (!plan) {
    candidate.saved_bytes = static_cast<double>(attempt.least_saved_bytes);
    return plan.takeError();
  }
  const int64_t batch = BatchOf(*plan, context.policy);
  ACT_TRY(MemoryLayout sizes, PlanSizes(*plan, context.target).At(batch));
  for (const SavedEdge& edge : plan->edges)
    candidate.saved_bytes += static_cast<double>(edge.bytes.At(batch));
  candidate.variance = attempt.expected_variance;
  candidate.work = WorkOf(plan->train.graph);
  return Peak(std::move(sizes));
}

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

double LeastOf(const std::vector<Tried>& tried, double (Peak::*bound)() const) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tried& t : tried) least = std::min(least, (t.peak.*bound)());
  return least;
}

// Sets the peaks of the candidates just so exactly that ChooseReruns takes the one that it would take if all were exact.
void SettlePeaks(std::vector<Tried>& tried, double alike) {
  const auto undecided = [&] {
    const double low = LeastOf(tried, &Peak::least), high = LeastOf(tried, &Peak::most);
    return std::any_of(tried.begin(), tried.end(), [&](const Tried& t) {
      return t.peak.most() > alike * low && t.peak.least() <= alike * high && !t.peak.Settled();
    });
  };
  while (undecided()) LowestUnsettled(tried)->peak.Settle();
  const double high = LeastOf(tried, &Peak::most);
  for (Tried& t : tried)
    t.candidate.peak_bytes = t.peak.least() > alike * high ? t.peak.least() : t.peak.most();
}

double SettledLeastPeak(std::vector<Tried>& tried) {
  for (Tried* t; (t = LowestUnsettled(tried)) && t->peak.least() < LeastOf(tried, &Peak::most);)
    t->peak.Settle();
  return LeastOf(tried, &Peak::most);
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
    RerunCandidate fewer = best;
    fewer.repeated_elements = bound, fewer.peak_bytes = fewer.saved_bytes = 0;
    ACT_TRY(Peak peak, TryReruns(fewer, graph, context, finish));
    if (peak.least() > bytes) continue;
    peak.Estimate();
    if (peak.most() > bytes) peak.Settle();
    if (peak.most() <= bytes) return fewer;
  }
  return best;
}

// Lowers the peak of the best candidate further. Segments are re-run in parts, those of the largest results first, as
// long as that adds little work. Then codes take fewer bytes. A variant is taken if it lowers the peak by enough.
// Returns the peak.
llvm::Expected<double> LowerFurther(RerunCandidate& best, double bytes, const Graph& graph,
                                    const PassContext& context, FinishTraining finish) {
  const double most_work = kWorkOfParts * WorkOf(graph);
  const auto attempt = [&](RerunCandidate variant, double gain) -> llvm::Error {
    variant.peak_bytes = variant.saved_bytes = 0;
    ACT_TRY(Peak peak, TryReruns(variant, graph, context, finish));
    if (gain * peak.least() >= bytes || variant.work > best.work + most_work) return llvm::Error::success();
    peak.Settle();
    if (gain * peak.most() >= bytes) return llvm::Error::success();
    best = variant;
    bytes = peak.most();
    return llvm::Error::success();
  };
  for (const int64_t size : SizesBeforeStatistics(graph)) {
    if (best.elements == 0 || size > best.elements) continue;
    RerunCandidate parted = best;
    parted.parted_elements = size;
    ACT_CHECK_OK(attempt(parted, kBarelyAlike));
    if (best.parted_elements != size) break;
  }
  RerunCandidate coarser = best;
  coarser.bytes_part = kFewerBytes;
  if (context.policy.mixes_levels && !context.policy.HasBudget()) ACT_CHECK_OK(attempt(coarser, kWorthNoise));
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

llvm::Error SearchReruns(const Graph& graph, PassContext& context, std::vector<RerunCandidate> choices,
                         FinishTraining finish) {
  if (choices.empty()) choices = RerunChoices(graph, context);
  const bool limited = context.policy.saved_limit > 0, least_peak = context.policy.least_peak;
  const double alike = least_peak ? kBarelyAlike : kAlike;
  std::vector<Tried> tried;
  double least_saved = std::numeric_limits<double>::infinity();
  llvm::Error refused = llvm::Error::success();
  for (RerunCandidate& candidate : choices) {
    llvm::Expected<Peak> peak = TryReruns(candidate, graph, context, finish);
    if (peak) {
      // What is too high however it is packed is not packed.
      if (peak->least() <= alike * LeastOf(tried, &Peak::most)) peak->Estimate();
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
