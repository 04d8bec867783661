// Chooses the form of each saved activation, under a bound on their bytes, so that the
// gradient has the least variance. This is a multiple-choice knapsack problem: plain values
// in, plain values out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace act {

struct BitOption {
  int64_t bytes = 0;
  double variance = 0;  // what it adds to the gradient's variance; contributions add up
};

struct BitProblem {
  std::vector<std::vector<BitOption>> edges;  // at least one option each
  int64_t budget_bytes = 0;                   // of all edges together
};

using BitAllocation = std::vector<size_t>;  // by edge: the chosen option

int64_t BytesOf(const BitProblem& problem, const BitAllocation& allocation);
double VarianceOf(const BitProblem& problem, const BitAllocation& allocation);
// The bytes of the smallest option everywhere. No budget below this can be kept.
int64_t LeastBytes(const BitProblem& problem);

// The allocation of least variance within the budget; nullopt if LeastBytes exceeds it. The result
// is optimal as long as no more than `most_states` partial allocations stay undecided at an edge,
// which always holds for tens of edges. Beyond that the most promising are kept, and the result is
// at least as good as rounding the solution of the linear relaxation. Deterministic.
std::optional<BitAllocation> SolveBits(const BitProblem& problem, size_t most_states = 4096);

// Checks an allocation independently of the solver: nullopt if it has one option for each edge and
// is within the budget.
std::optional<std::string> ValidateBits(const BitProblem& problem, const BitAllocation& allocation);

}  // namespace act
