// Compiles candidates for re-runs (choose_reruns.h) to the end, several at a time, and measures them.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
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

struct RerunAttempt {
  RerunCandidate candidate;  // with its figures but for the peak
  // The error of a candidate that exceeds Policy::saved_limit; its saved_bytes are then the least possible.
  llvm::Expected<CandidatePeak> peak;
};

// The attempts at a list of candidates, in its order. Each thread compiles one candidate, so some are compiled before
// they are asked for. What Next returns does not depend on the number of threads.
class RerunAttempts {
 public:
  // All but the list must outlive this.
  RerunAttempts(std::vector<RerunCandidate> candidates, const Graph& graph, const PassContext& context,
                FinishTraining finish)
      : candidates_(std::move(candidates)), graph_(graph), context_(context), finish_(finish) {}
  ~RerunAttempts();
  RerunAttempts(const RerunAttempts&) = delete;
  RerunAttempts& operator=(const RerunAttempts&) = delete;

  // Says that all will be asked for, so that no thread waits for another.
  void CompileAll() { CompileMore(candidates_.size()); }
  // Nothing: there are no more.
  std::optional<RerunAttempt> Next();

 private:
  void CompileMore(size_t most);

  const std::vector<RerunCandidate> candidates_;
  const Graph& graph_;
  const PassContext& context_;
  const FinishTraining finish_;
  std::vector<std::optional<RerunAttempt>> compiled_;  // of the first candidates
  size_t next_ = 0;
};

// The operations of a step's products, at one batch size.
double WorkOf(const Graph& graph);

}  // namespace act
