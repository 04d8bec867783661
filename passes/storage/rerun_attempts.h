// Compiles candidates for re-runs (choose_reruns.h) to the end, several at a time, and measures them.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "passes/storage/choose_reruns.h"
#include "runtime/memory/layout.h"

namespace act {

// The peak of a candidate's step in bytes, as exactly as it was asked for: packing takes longer than measuring, and
// searching longer than both.
class CandidatePeak {
 public:
  explicit CandidatePeak(MemoryLayout sizes)
      : sizes_(std::move(sizes)), least_(static_cast<double>(sizes_.train.lower_bound_bytes)) {}

  double least() const { return least_; }
  double most() const { return most_; }
  bool Settled() const { return least_ == most_; }
  // Lowers `most` by quick packing.
  void Estimate();
  // Makes both bounds the peak.
  void Settle();

 private:
  double Pack(const PackingOptions& options) const;

  MemoryLayout sizes_;
  double least_, most_ = std::numeric_limits<double>::infinity();
};

// The peak of the plan's training step, measured and not packed.
llvm::Expected<CandidatePeak> PeakAt(const Plan& plan, int64_t batch, TargetKind target);

struct CandidatePlan {
  Plan plan;
  CandidatePeak peak;
};

struct RerunAttempt {
  RerunCandidate candidate;  // with its figures but for the peak
  // The error of a candidate that exceeds Policy::saved_limit; its saved_bytes are then the least possible.
  llvm::Expected<CandidatePlan> made;
};

struct TriedRerun {
  RerunCandidate candidate;
  CandidatePlan made;
};
// The unsettled candidate of the lowest least peak; null: all are settled.
TriedRerun* LowestUnsettled(std::vector<TriedRerun>& tried);
// The least of all candidates' bounds on their peaks. Infinity: there is none.
double LeastOf(const std::vector<TriedRerun>& tried, double (CandidatePeak::*bound)() const);
// The least peak, which is settled.
double SettledLeastPeak(std::vector<TriedRerun>& tried);

// Compiles candidates. Those that are expected to be asked for are compiled ahead, a thread each. What Take returns
// does not depend on them, nor on the number of threads.
class RerunAttempts {
 public:
  // Runs the rest of the passes over a step.
  using Finish = llvm::function_ref<llvm::Expected<Plan>(UnfinishedStep&)>;
  // Both must outlive this.
  RerunAttempts(const UnfinishedStep& step, Finish finish) : step_(step), finish_(finish) {}
  ~RerunAttempts();
  RerunAttempts(const RerunAttempts&) = delete;
  RerunAttempts& operator=(const RerunAttempts&) = delete;

  void CompileAhead(std::span<const RerunCandidate> candidates);
  RerunAttempt Take(const RerunCandidate& candidate);

 private:
  const UnfinishedStep& step_;
  const Finish finish_;
  std::vector<RerunAttempt> ahead_;  // not yet taken
};

// The operations of a step's products, at one batch size.
double WorkOf(const Graph& graph);

}  // namespace act
