#include "passes/choose_reruns.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/memory/layout.h"

namespace act {
namespace {

constexpr int64_t kLeastBatch = 64;  // at small ones parameters hide what activations do to the peak
constexpr double kAlike = 1.15;      // peaks at most so many times the least differ little

}  // namespace

llvm::Expected<RerunCandidate> MeasureReruns(int64_t bound, const Plan& plan) {
  const int64_t batch = plan.fixed_batch ? plan.default_batch : std::max(plan.default_batch, kLeastBatch);
  ACT_TRY(const MemoryLayout layout, LayOut(plan, batch));
  RerunCandidate candidate{bound, static_cast<double>(layout.train.peak_bytes), 0};
  for (const SavedEdge& edge : plan.edges) candidate.saved_bytes += static_cast<double>(edge.bytes.At(batch));
  return candidate;
}

int64_t ChooseReruns(const std::vector<RerunCandidate>& candidates) {
  double least = candidates.front().peak_bytes;
  for (const RerunCandidate& candidate : candidates) least = std::min(least, candidate.peak_bytes);
  const RerunCandidate* best = nullptr;
  for (const RerunCandidate& candidate : candidates)
    if (candidate.peak_bytes <= kAlike * least && (!best || candidate.saved_bytes < best->saved_bytes))
      best = &candidate;
  return best->bound;
}

}  // namespace act
