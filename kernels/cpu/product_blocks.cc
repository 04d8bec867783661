#include "kernels/cpu/product_blocks.h"

namespace act {
namespace {

// Rows that the registers hold at a time, and the fewest of a block that are worth a thread.
constexpr int64_t kStrip = 6, kFewestRows = 24;
// Columns for which a's block is read once: below these, reading it would take a tenth of the time.
constexpr int64_t kFewestColumns = 128;
constexpr int64_t kFloat = 4;
// A product of fewer multiplications is over before a second thread wakes up.
constexpr int64_t kParallelProducts = int64_t{1} << 18;

int64_t DividedUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// As many rows as give each thread the same number of blocks.
int64_t BalancedRows(int64_t m, int64_t most, int threads) {
  const int64_t blocks = DividedUp(DividedUp(m, most), threads) * threads;
  return std::min(most, std::max(DividedUp(DividedUp(m, blocks), kStrip) * kStrip, kFewestRows));
}

// Whether blocks with all fields set but those of b and of sums fit into `floats` of a team.
bool FitB(const ProductSizes& s, int64_t floats, ProductBlocks& b) {
  const int64_t panels = DividedUp(s.n, b.panel), few = std::min(s.n, kFewestColumns);
  const int64_t most = (s.sums_apart ? kProductColumns : kMostColumns) / b.panel;
  const auto fits = [&] {
    return b.b_depth * b.columns * kFloat <= kProductBytes && b.TeamFloats(s) <= floats;
  };
  const auto widest = [&](int64_t fewest) {
    for (int64_t count = std::min(panels, most); count * b.panel >= fewest; --count) {
      b.columns = std::min(count * b.panel, s.n);
      if (fits()) return true;
    }
    return false;
  };
  if (!s.sums_apart) {
    for (b.b_depth = std::min(s.k, b.depth);; b.b_depth = kStagedDepth) {
      if (widest(b.b_depth > kStagedDepth ? few : 1)) return true;
      if (b.b_depth <= kStagedDepth) return false;
    }
  }
  b.b_depth = s.k;
  b.sum_rows = b.rows;
  b.sums_of_a_thread = true;
  if (widest(few)) return true;
  b.sums_of_a_thread = false;
  b.columns = std::min(s.n, kProductColumns);
  const int64_t half = std::min((floats - b.threads * b.AFloats(s)) / 2, kProductBytes / kFloat);
  b.sum_rows =
      std::min(half / ProductRowFloats(b.columns), DividedUp(s.m, b.rows) * b.rows) / b.rows * b.rows;
  const int64_t across = DividedUp(b.columns, b.panel);
  b.b_depth = std::min(s.k, (half / across - 16) / b.panel / kStagedDepth * kStagedDepth);
  return b.sum_rows > 0 && b.b_depth > 0 && fits();
}

}  // namespace

int64_t ProductBlocks::AFloats(const ProductSizes& s) const {
  const int64_t block = s.transposed_a ? depth * ProductRowFloats(rows) : rows * ProductRowFloats(depth);
  return s.stages_b ? std::max(block, panel * ProductRowFloats(kStagedDepth)) : block;
}

int ThreadsOfProduct(const ProductSizes& s, int threads) {
  const double products = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
                          static_cast<double>(s.batches);
  return products < static_cast<double>(kParallelProducts) ? 1 : threads;
}

std::optional<ProductBlocks> FitProductBlocks(const ProductSizes& s, int64_t panel, int threads,
                                              int64_t bytes) {
  threads = ThreadsOfProduct(s, threads);
  ProductBlocks b;
  b.panel = panel;
  b.depth = std::min(s.k, kProductDepth);
  for (int count = std::max(threads, 1); count >= 1; count /= 2) {
    const bool apart = s.batches >= count;
    b.teams = apart ? count : 1;
    b.threads = apart ? 1 : count;
    for (int64_t most = kProductRows; most >= kFewestRows; most /= 2) {
      b.rows = BalancedRows(s.m, most, b.threads);
      if (FitB(s, bytes / kFloat / b.teams, b)) return b;
    }
  }
  return std::nullopt;
}

}  // namespace act
