#include "runtime/memory/largest_batch.h"

#include <algorithm>
#include <bit>

namespace act {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 40;

// The ejection search is the slowest and only lowers a packing: what fits without it fits.
PackingOptions WithoutEjection() { return PackingOptions().Without(PackingHeuristic::kEjectionSearch); }
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

// What it takes. kTooLarge: there is no such layout.
int64_t BatchSearch::ArenaAt(int64_t batch) {
  const auto [it, fresh] = arenas_at_.try_emplace(batch, kTooLarge);
  if (!fresh) return it->second;
  llvm::Expected<MemoryLayout> sizes = sizes_.At(batch);
  if (sizes)
    it->second = BytesOf(Packed(*sizes, WithoutEjection()), arenas_);
  else
    llvm::consumeError(sizes.takeError());
  return it->second;
}

bool BatchSearch::Fits(int64_t batch, int64_t bytes) {
  if (BoundAt(batch) > bytes) return false;
  if (!arenas_at_.count(batch)) {
    llvm::Expected<MemoryLayout> sizes = sizes_.At(batch);
    if (sizes && BytesOf(Packed(*sizes, QuickPacking()), arenas_) <= bytes) return true;
    if (!sizes) llvm::consumeError(sizes.takeError());
  }
  return ArenaAt(batch) <= bytes;
}

int64_t BatchSearch::Largest(int64_t bytes) {
  if (plan_.fixed_batch) return Fits(plan_.default_batch, bytes) ? plan_.default_batch : 0;
  // The lower bound is cheap to compute. A packing mostly reaches it, or misses it by a ratio that
  // hardly depends on the batch. So few packings need to be solved: at the batch where the bound
  // reaches `bytes`, and at the batch where the bound times that ratio does.
  int64_t beyond = 1;
  while (beyond < kMostSamples && BoundAt(beyond) <= bytes) beyond *= 2;
  const int64_t bound =
      Bisect(beyond / 2, beyond, beyond / 2, [&](int64_t n) { return BoundAt(n) <= bytes; });
  if (bound == 0) return 0;
  // If packings of other batches missed it, so will this one, most likely.
  if (ratio_ == 1) {
    if (Fits(bound, bytes)) return bound;
    ratio_ = static_cast<double>(ArenaAt(bound)) / static_cast<double>(BoundAt(bound));
  }
  const auto likely = [&](int64_t n) {
    return static_cast<double>(BoundAt(n)) * ratio_ <= static_cast<double>(bytes);
  };
  // Each try is a packing, and how far one misses the bound may change from batch to batch. So large batches are
  // searched in steps.
  const int64_t step = LargestBatchStep(bound);
  int64_t low = Bisect(0, bound + 1, bound - bound / 64, likely) / step, high = bound / step + 1;
  const auto fits = [&](int64_t steps) { return Fits(steps * step, bytes); };
  for (int64_t stride = 1; low > 0 && !fits(low); stride *= 2) {
    high = low;
    low = std::max<int64_t>(0, low - stride);
  }
  return Bisect(low, high, low + 1, fits) * step;
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
