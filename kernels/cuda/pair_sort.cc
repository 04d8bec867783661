#include "kernels/cuda/pair_sort.h"

#include <utility>

#include "kernels/cuda/column_plan.h"
#include "kernels/site/dereference.h"
#include "runtime/plan/workspace.h"

namespace act::cuda {

static_assert(kSortItems == kSortedByBlock &&
              kDigits * static_cast<int64_t>(sizeof(uint32_t)) == kSortCountBytes);

PairSort::PairSort(const CudaContext& context)
    : count_(context, "sort_count", "SortParameters", "radix_sort", "SortCount", kSortThreads),
      scan_(context, "sort_scan", "SortParameters", "radix_sort", "SortScan", kScanThreads),
      move_(context, "sort_move", "SortParameters", "radix_sort", "SortMove", kSortThreads) {}

SortScratch TakeSortScratch(WorkspacePieces& pieces, int64_t count) {
  const auto words = [&] { return pieces.Take(count * int64_t{sizeof(uint32_t)}).as<uint32_t>(); };
  SortScratch scratch;
  for (SortPairs* pairs : {&scratch.pairs, &scratch.other}) {
    pairs->keys = words();
    pairs->values = words();
  }
  scratch.counts = pieces.Take(DivideUp(count, kSortItems) * kSortCountBytes).as<uint32_t>();
  return scratch;
}

Status PairSort::Run(SortScratch& scratch, int64_t count, int bits) const {
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    const SortParameters sort{.keys = scratch.pairs.keys,
                              .values = scratch.pairs.values,
                              .keys_to = scratch.other.keys,
                              .values_to = scratch.other.values,
                              .counts = scratch.counts,
                              .count = static_cast<int32_t>(count),
                              .blocks = static_cast<int32_t>(DivideUp(count, kSortItems)),
                              .shift = shift};
    Status status = count_.Launch(sort.blocks, sort);
    if (status.empty()) status = scan_.Launch(1, sort);
    if (status.empty()) status = move_.Launch(sort.blocks, sort);
    if (!status.empty()) return status;
    std::swap(scratch.pairs, scratch.other);
  }
  return "";
}

}  // namespace act::cuda
