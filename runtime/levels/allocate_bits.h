// Which form each saved activation gets under a bound on their bytes, so that the gradient has the least
// variance. A multiple-choice knapsack problem: plain values in, plain values out.
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

using BitAllocation = std::vector<size_t>;  // by edge: which option

int64_t BytesOf(const BitProblem& problem, const BitAllocation& allocation);
double VarianceOf(const BitProblem& problem, const BitAllocation& allocation);
// With the smallest option everywhere: no budget below this can be kept.
int64_t LeastBytes(const BitProblem& problem);

// The allocation of least variance within the budget; nullopt where LeastBytes exceeds it. Optimal as long as
// no more than `most_states` partial allocations stay undecided at an edge (always so for tens of edges);
// beyond that the most promising are kept, and the result is at least as good as rounding the solution of the
// linear relaxation. Deterministic.
std::optional<BitAllocation> SolveBits(const BitProblem& problem, size_t most_states = 4096);

// Independent of the solver: nullopt when there is one option for each edge, within the budget.
std::optional<std::string> ValidateBits(const BitProblem& problem, const BitAllocation& allocation);

}  // namespace act
