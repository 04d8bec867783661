#include "runtime/memory/layout.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/memory/categories.h"
#include "runtime/memory/step_sizes.h"

namespace act {
namespace {

void CountCategories(const StepGraph& step, int64_t persistent_bytes, StepLayout& layout) {
  if (layout.timeline.empty()) return;
  const auto peak = static_cast<size_t>(layout.peak_node);
  const CategoryBytes at_peak = CategoryTimeline(step, layout, persistent_bytes)[peak];
  std::copy(at_peak.begin(), at_peak.end(), layout.category_bytes);
  layout.category_bytes[static_cast<size_t>(MemoryCategory::kTransient)] +=
      layout.peak_bytes - layout.lower_bound_bytes;
}

}  // namespace

std::vector<int64_t> LiveBytes(const StepGraph& step, int64_t batch, TargetKind target) {
  return Timeline(StepSizes(step, target).At(batch), 0);
}

llvm::Expected<MemoryLayout> LayOut(const Plan& plan, int64_t batch, TargetKind target,
                                    const PackingOptions& packing) {
  ACT_TRY(MemoryLayout result, PlanSizes(plan, target).At(batch));
  PlaceTransients(result.persistent_bytes, packing, result.train);
  PlaceTransients(result.persistent_bytes, packing, result.eval);
  CountCategories(plan.train, result.persistent_bytes, result.train);
  CountCategories(plan.eval, result.persistent_bytes, result.eval);
  result.arena_bytes = std::max(result.train.peak_bytes, result.eval.peak_bytes);
  result.host_bytes = std::max(result.train.host_peak_bytes, result.eval.host_peak_bytes);
  return result;
}

}  // namespace act
