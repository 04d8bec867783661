// How a product in float32 is cut into blocks that stay in the caches. Blocks decide where a number
// lies while it is used, and not in which order a sum is added, so the bits of a result do not
// depend on them, nor on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/plan/workspace.h"

namespace act {

struct ProductSizes {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  bool transposed_a = false;  // a's rows in memory are those of k
  bool stages_b = false;      // columns of b are converted before they are transposed
  bool sums_apart = false;    // the result cannot hold the sums: it is bfloat16
};

// A block of a, [rows, depth], is read by one thread; a block of b, [b_depth, columns], by all of a
// team. Sums that lie apart are a block of [rows, columns] for each thread if b_depth is the whole
// of k. Otherwise they are one block of [sum_rows, columns], which lasts over the blocks of b.
struct ProductBlocks {
  int64_t rows = 0, depth = 0, columns = 0, b_depth = 0;
  int64_t sum_rows = 0;  // of a block of sums; 0: the result holds them
  bool sums_of_a_thread = false;
  int teams = 1, threads = 1;  // of a team; teams work on different batches
  int64_t panel = 0;           // columns of b that lie together

  // Floats of each part of the scratch space.
  int64_t PanelFloats() const { return b_depth * panel + 16; }
  int64_t BFloats() const { return (columns + panel - 1) / panel * PanelFloats(); }
  int64_t AFloats(const ProductSizes& s) const;
  int64_t SumFloats() const { return sum_rows * ProductRowFloats(columns); }
  int64_t ThreadFloats(const ProductSizes& s) const {
    return AFloats(s) + (sums_of_a_thread ? SumFloats() : 0);
  }
  int64_t TeamFloats(const ProductSizes& s) const {
    return BFloats() + threads * ThreadFloats(s) + (sums_of_a_thread ? 0 : SumFloats());
  }
  int64_t Bytes(const ProductSizes& s) const { return teams * TeamFloats(s) * 4; }
};

// How many of `threads` a product of these sizes is worth.
int ThreadsOfProduct(const ProductSizes& sizes, int threads);

// The most columns of a block of b: of sums in the result.
inline constexpr int64_t kMostColumns = 1024;

// Terms of k that are transposed at a time.
inline constexpr int64_t kStagedDepth = 128;

// The best blocks that fit into `bytes`: with fewer rows a block before fewer threads. Nullopt if
// none do.
std::optional<ProductBlocks> FitProductBlocks(const ProductSizes& sizes, int64_t panel, int threads,
                                              int64_t bytes);

}  // namespace act
