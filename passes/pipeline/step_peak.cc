#include "passes/pipeline/step_peak.h"

#include <algorithm>

#include "runtime/memory/step_sizes.h"

namespace act {

int64_t StepPeak::Least() const {
  return std::max(sizes_.train.lower_bound_bytes, sizes_.eval.lower_bound_bytes);
}

const StepPeak::Taken& StepPeak::Exact() {
  if (!exact_) {
    const MemoryLayout packed = Packed(sizes_, {});
    exact_ = {BytesOf(packed, arenas_), packed.host_bytes};
  }
  return *exact_;
}

bool StepPeak::Fits(int64_t bytes) {
  if (exact_) return exact_->bytes <= bytes;
  if (Least() > bytes) return false;
  if (!most_) most_ = BytesOf(Packed(sizes_, QuickPacking()), arenas_);
  return *most_ <= bytes || Bytes() <= bytes;
}

}  // namespace act
