#include "runtime/memory/largest_batch.h"

#include <algorithm>
#include <bit>

namespace act {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 40;

// A run packs with more steps, so what fits with these fits there.
constexpr int64_t kEjectionRounds = 1;

// The number in [low, high) for which `fits` holds, while it does not for the next. fits(low) must hold and
// fits(high) must not. Tries `first` first.
template <class Fits>
int64_t Bisect(int64_t low, int64_t high, int64_t first, Fits fits) {
  for (int64_t middle = first; high - low > 1; middle = low + (high - low) / 2) {
    if (middle <= low || middle >= high) middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

// No packing of the batch takes less. kTooLarge: there is none.
int64_t BatchSearch::BoundAt(int64_t batch) {
  const auto [it, fresh] = bounds_.try_emplace(batch, kTooLarge);
  if (!fresh) return it->second;
  llvm::Expected<MemoryLayout> sizes = sizes_.At(batch);
  if (sizes)
    it->second = std::max(sizes->train.lower_bound_bytes, sizes->eval.lower_bound_bytes);
  else
    llvm::consumeError(sizes.takeError());
  return it->second;
}

bool BatchSearch::Fits(int64_t batch, int64_t bytes) {
  if (BoundAt(batch) > bytes) return false;
  PackingOptions options{.ejection_rounds = kEjectionRounds};
  if (arenas_ == Arenas::kDevice) options.enough = bytes;
  llvm::Expected<MemoryLayout> sizes = sizes_.At(batch);
  if (!sizes) {
    llvm::consumeError(sizes.takeError());
    return false;
  }
  const int64_t arenas = BytesOf(Packed(*sizes, options), arenas_);
  ratio_ = static_cast<double>(arenas) / static_cast<double>(BoundAt(batch));
  return arenas <= bytes;
}

int64_t BatchSearch::Largest(int64_t bytes) {
  if (plan_.fixed_batch) return Fits(plan_.default_batch, bytes) ? plan_.default_batch : 0;
  int64_t beyond = 1;
  while (beyond < kMostSamples && BoundAt(beyond) <= bytes) beyond *= 2;
  const int64_t bound =
      Bisect(beyond / 2, beyond, beyond / 2, [&](int64_t n) { return BoundAt(n) <= bytes; });
  if (bound == 0) return 0;
  // The lower bound is cheap to compute, and a packing is not. It reaches the bound, or misses it by a ratio that hardly
  // depends on the batch. So each try is the largest batch that fits by the ratio of the last one.
  const int64_t step = LargestBatchStep(bound);
  const auto likely = [&](int64_t n) {
    return static_cast<double>(BoundAt(n)) * ratio_ <= static_cast<double>(bytes);
  };
  int64_t low = 0, high = bound + 1;
  while (true) {
    int64_t next = std::min(high - 1, Bisect(0, bound + 1, bound - bound / 64, likely));
    if (next < bound) next -= next % step;
    next = std::max(next, low + step);
    if (next >= high) return low;
    (Fits(next, bytes) ? low : high) = next;
  }
}

std::vector<int64_t> BatchSearch::Largest(const std::vector<int64_t>& memories) {
  std::vector<int64_t> batches(memories.size());
  if (!memories.empty()) batches[0] = Largest(memories[0]);
  const BatchSearch& first = *this;
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t m = 1; m < memories.size(); ++m) batches[m] = BatchSearch(first).Largest(memories[m]);
  return batches;
}

int64_t LargestBatchStep(int64_t batch) {
  const int64_t share = batch < 1 << 16 ? batch / 512 : batch / 64;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, share))));
}

llvm::Expected<int64_t> LargestBatch(const Plan& plan, int64_t bytes, Arenas arenas, TargetKind target) {
  return BatchSearch(plan, arenas, target).Largest(bytes);
}

}  // namespace act
