#include "passes/storage/rerun_attempts.h"

#include <omp.h>

#include <algorithm>

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
llvm::Expected<CandidatePeak> Compile(RerunCandidate& candidate, const Graph& graph,
                                      const PassContext& context, FinishTraining finish) {
  PassContext attempt = context;
  SetReruns(attempt, candidate);
  llvm::Expected<Plan> plan = finish(graph, attempt);
  if (!plan) {
    candidate.saved_bytes = static_cast<double>(attempt.least_saved_bytes);
    return plan.takeError();
  }
  const int64_t batch = BatchOf(*plan, context.policy);
  ACT_TRY(MemoryLayout sizes, PlanSizes(*plan, context.target).At(batch));
  candidate.saved_bytes = 0;
  for (const SavedEdge& edge : plan->edges)
    candidate.saved_bytes += static_cast<double>(edge.bytes.At(batch));
  candidate.variance = attempt.expected_variance;
  candidate.work = WorkOf(plan->train.graph);
  return CandidatePeak(std::move(sizes));
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

RerunAttempts::~RerunAttempts() {
  for (; next_ < compiled_.size(); ++next_) llvm::consumeError(compiled_[next_]->peak.takeError());
}

std::optional<RerunAttempt> RerunAttempts::Next() {
  if (next_ == compiled_.size()) CompileMore(static_cast<size_t>(omp_get_max_threads()));
  if (next_ == compiled_.size()) return std::nullopt;
  return std::exchange(compiled_[next_++], std::nullopt);
}

void RerunAttempts::CompileMore(size_t most) {
  const size_t begin = compiled_.size(), end = std::min(candidates_.size(), begin + most);
  compiled_.resize(end);
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t c = begin; c < end; ++c) {
    RerunCandidate candidate = candidates_[c];
    llvm::Expected<CandidatePeak> peak = Compile(candidate, graph_, context_, finish_);
    compiled_[c].emplace(RerunAttempt{candidate, std::move(peak)});
  }
}

double WorkOf(const Graph& graph) {
  double work = 0;
  for (const Node& node : graph.nodes)
    if (const OpDef* const op = FindOp(node.op); op && op->product != Product::kNone && op->flops)
      work += static_cast<double>(op->flops(node, graph).At(kComparedBatch));
  return work;
}

}  // namespace act
