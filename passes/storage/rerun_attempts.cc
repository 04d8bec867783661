#include "passes/storage/rerun_attempts.h"

#include <algorithm>
#include <optional>

#include "compiler/ops/op_table.h"
#include "compiler/policy/compared_batches.h"
#include "runtime/base/error.h"
#include "runtime/memory/step_sizes.h"

namespace act {
namespace {

// The batch size at which the peaks of a plan's candidates are compared. Without --batch it is 1, which says nothing of
// the batch of a run.
int64_t BatchOf(const Plan& plan, const Policy& policy) {
  const int64_t batch = plan.default_batch;
  if (plan.fixed_batch) return batch;
  if (policy.least_peak) return batch > 1 ? batch : kSmallPeakBatch;
  return std::max(batch, kLeastPeakBatch);
}

// Compiles the candidate, measures its plan, and fills in its figures but for the peak.
llvm::Expected<CandidatePlan> Compile(RerunCandidate& candidate, const UnfinishedStep& step,
                                      RerunAttempts::Finish finish) {
  UnfinishedStep attempt = step;
  SetReruns(attempt.context, candidate);
  llvm::Expected<Plan> plan = finish(attempt);
  if (!plan) {
    candidate.saved_bytes = static_cast<double>(attempt.context.least_saved_bytes);
    return plan.takeError();
  }
  const int64_t batch = BatchOf(*plan, step.context.policy);
  ACT_TRY(CandidatePeak peak, PeakAt(*plan, batch, step.context.target));
  candidate.saved_bytes = 0;
  for (const SavedEdge& edge : plan->edges)
    candidate.saved_bytes += static_cast<double>(edge.bytes.At(batch));
  candidate.variance = attempt.context.expected_variance;
  candidate.work = WorkOf(plan->train.graph);
  return CandidatePlan{std::move(*plan), std::move(peak)};
}

}  // namespace

void CandidatePeak::Estimate() { most_ = Pack(QuickPacking()); }

// Each of many candidates may be packed, so the slowest search is left out. It may lower the peak of the plan that is
// taken by some percent more.
void CandidatePeak::Settle() {
  if (!Settled()) least_ = most_ = Pack(PackingOptions().Without(PackingHeuristic::kEjectionSearch));
}

double CandidatePeak::Pack(const PackingOptions& options) const {
  StepLayout layout = sizes_.train;
  PlaceTransients(sizes_.persistent_bytes, options, layout);
  return static_cast<double>(layout.peak_bytes);
}

llvm::Expected<CandidatePeak> PeakAt(const Plan& plan, int64_t batch, TargetKind target) {
  ACT_TRY(MemoryLayout sizes, PlanSizes(plan, target).At(batch));
  return CandidatePeak(std::move(sizes));
}

TriedRerun* LowestUnsettled(std::vector<TriedRerun>& tried) {
  TriedRerun* lowest = nullptr;
  for (TriedRerun& t : tried)
    if (!t.made.peak.Settled() && (!lowest || t.made.peak.least() < lowest->made.peak.least())) lowest = &t;
  return lowest;
}

double LeastOf(const std::vector<TriedRerun>& tried, double (CandidatePeak::*bound)() const) {
  double least = std::numeric_limits<double>::infinity();
  for (const TriedRerun& t : tried) least = std::min(least, (t.made.peak.*bound)());
  return least;
}

double SettledLeastPeak(std::vector<TriedRerun>& tried) {
  for (TriedRerun* t;
       (t = LowestUnsettled(tried)) && t->made.peak.least() < LeastOf(tried, &CandidatePeak::most);)
    t->made.peak.Settle();
  return LeastOf(tried, &CandidatePeak::most);
}

RerunAttempts::~RerunAttempts() {
  for (RerunAttempt& attempt : ahead_) llvm::consumeError(attempt.made.takeError());
}

void RerunAttempts::CompileAhead(std::span<const RerunCandidate> candidates) {
  std::vector<std::optional<RerunAttempt>> compiled(candidates.size());
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t c = 0; c < candidates.size(); ++c) {
    RerunCandidate candidate = candidates[c];
    llvm::Expected<CandidatePlan> made = Compile(candidate, step_, finish_);
    compiled[c].emplace(RerunAttempt{candidate, std::move(made)});
  }
  for (std::optional<RerunAttempt>& attempt : compiled) ahead_.push_back(std::move(*attempt));
}

RerunAttempt RerunAttempts::Take(const RerunCandidate& candidate) {
  const auto is_it = [&](const RerunAttempt& attempt) { return attempt.candidate == candidate; };
  if (std::none_of(ahead_.begin(), ahead_.end(), is_it)) CompileAhead({&candidate, 1});
  const auto found = std::find_if(ahead_.begin(), ahead_.end(), is_it);
  RerunAttempt attempt = std::move(*found);
  ahead_.erase(found);
  return attempt;
}

double WorkOf(const Graph& graph) {
  double work = 0;
  for (const Node& node : graph.nodes)
    if (const OpDef* const op = FindOp(node.op); op && op->product != Product::kNone && op->flops)
      work += static_cast<double>(op->flops(node, graph).At(kComparedBatch));
  return work;
}

}  // namespace act
