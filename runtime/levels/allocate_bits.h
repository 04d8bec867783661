// Chooses the form of each saved activation under a limit on their total bytes, so that the
// gradient has the least variance. This is a multiple-choice knapsack problem. Plain values in,
// plain values out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace act {

struct BitOption {
  int64_t bytes = 0;
  double variance = 0;  // added to the gradient's variance; contributions of edges add up
};

struct BitProblem {
  std::vector<std::vector<BitOption>> edges;  // at least one option each
  int64_t budget_bytes = 0;                   // for all edges together
};

using BitAllocation = std::vector<size_t>;  // by edge: the index of its option

int64_t BytesOf(const BitProblem& problem, const BitAllocation& allocation);
double VarianceOf(const BitProblem& problem, const BitAllocation& allocation);
// Bytes with the smallest option everywhere. No smaller budget can be met.
int64_t LeastBytes(const BitProblem& problem);

// The allocation with the least variance within the budget. Nullopt if LeastBytes exceeds the
// budget. The result is optimal as long as no more than `most_states` partial allocations stay
// undecided at an edge (always so for tens of edges). Beyond that the most promising are kept, and
// the result is at least as good as rounding the solution of the linear relaxation. Deterministic.
std::optional<BitAllocation> SolveBits(const BitProblem& problem, size_t most_states = 4096);

// A check independent of the solver: nullopt if there is one option for each edge, within the
// budget.
std::optional<std::string> ValidateBits(const BitProblem& problem, const BitAllocation& allocation);

}  // namespace act
