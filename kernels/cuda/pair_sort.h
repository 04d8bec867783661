// A stable sort of pairs of 32 bits by their keys (kernels/cuda/source/radix_sort.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/own_kernel.h"
#include "kernels/cuda/source/radix_sort_parameters.h"
#include "kernels/cuda/workspace_pieces.h"

namespace act::cuda {

struct SortPairs {
  uint32_t *keys = nullptr, *values = nullptr;
};
struct SortScratch {
  SortPairs pairs, other;
  uint32_t* counts = nullptr;
};
// For `count` pairs: CudaSortBytes(count).
SortScratch TakeSortScratch(WorkspacePieces& pieces, int64_t count);

class PairSort {
 public:
  explicit PairSort(const CudaContext& context);

  // Sorts the `count` pairs at scratch.pairs by the lowest `bits` bits of their keys. They are at scratch.pairs at the
  // end, which may have been exchanged with scratch.other.
  Status Run(SortScratch& scratch, int64_t count, int bits) const;

 private:
  using SortKernel = OwnKernel<SortParameters>;

  SortKernel count_, scan_, move_;
};

}  // namespace act::cuda
