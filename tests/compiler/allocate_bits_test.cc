// The bit allocator, compared with every possible allocation, and with bounds where
// there are too many.
#include "runtime/levels/allocate_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace act {
namespace {

// Edges as codes make them: bytes grow with bits, variance with the square of the step. Sizes and
// sensitivities spread over orders of magnitude.
BitProblem RandomProblem(std::mt19937& engine, size_t edges, size_t options) {
  std::uniform_real_distribution<double> exponent(0, 3);
  BitProblem problem;
  int64_t most = 0;
  for (size_t e = 0; e < edges; ++e) {
    const double elements = std::round(std::pow(10, exponent(engine)) * 64),
                 sensitivity = std::pow(10, -exponent(engine));
    std::vector<BitOption> list;
    for (size_t o = 0; o < options; ++o) {
      const double levels = std::pow(2, 1 + static_cast<double>(o) * .7);
      list.push_back({static_cast<int64_t>(elements * (std::ceil(4 * std::log2(levels)) / 4 + .125)),
                      sensitivity / ((levels - 1) * (levels - 1))});
    }
    if (engine() % 3 == 0) list.push_back({list[1].bytes + 1, list[0].variance});  // never worth it
    std::shuffle(list.begin(), list.end(), engine);
    int64_t largest = 0;
    for (const BitOption& option : list) largest = std::max(largest, option.bytes);
    most += largest;
    problem.edges.push_back(std::move(list));
  }
  std::uniform_real_distribution<double> share(0, 1.05);
  const int64_t least = LeastBytes(problem);
  problem.budget_bytes = least + static_cast<int64_t>(share(engine) * static_cast<double>(most - least));
  return problem;
}

double LeastVariance(const BitProblem& problem, size_t edge, int64_t bytes) {
  if (bytes > problem.budget_bytes) return std::numeric_limits<double>::infinity();
  if (edge == problem.edges.size()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const BitOption& option : problem.edges[edge])
    least = std::min(least, option.variance + LeastVariance(problem, edge + 1, bytes + option.bytes));
  return least;
}

TEST(AllocateBits, FindsTheBestOfAllAllocationsOfSmallProblems) {
  std::mt19937 engine(1);
  for (int n = 0; n < 400; ++n) {
    const BitProblem problem = RandomProblem(engine, 1 + engine() % 6, 2 + engine() % 4);
    const auto allocation = SolveBits(problem);
    ASSERT_TRUE(allocation);
    ASSERT_EQ(ValidateBits(problem, *allocation), std::nullopt);
    const double best = LeastVariance(problem, 0, 0);
    ASSERT_LE(VarianceOf(problem, *allocation), best * (1 + 1e-12)) << "problem " << n;
  }
}

// The relaxation's bound lies below the optimum by less than one edge's step between options.
TEST(AllocateBits, IsCloseToTheBoundOnLargeProblems) {
  std::mt19937 engine(2);
  for (int n = 0; n < 5; ++n) {
    const BitProblem problem = RandomProblem(engine, 300, 9);
    const auto allocation = SolveBits(problem);
    ASSERT_TRUE(allocation);
    ASSERT_EQ(ValidateBits(problem, *allocation), std::nullopt);
    double bound = 0;  // Lagrange's bound, over a ladder of prices
    for (double price = 1e-12; price < 1; price *= 1.02) {
      double value = -price * static_cast<double>(problem.budget_bytes);
      for (const auto& options : problem.edges) {
        double least = std::numeric_limits<double>::infinity();
        for (const BitOption& o : options)
          least = std::min(least, o.variance + price * static_cast<double>(o.bytes));
        value += least;
      }
      bound = std::max(bound, value);
    }
    // 1 %: the distance of the ladder's nearest price from the best price, and one step of
    // one edge in 300.
    EXPECT_LE(VarianceOf(problem, *allocation), bound * 1.01) << "problem " << n;
  }
}

TEST(AllocateBits, MoreWorkIsNeverWorse) {
  std::mt19937 engine(3);
  for (int n = 0; n < 20; ++n) {
    const BitProblem problem = RandomProblem(engine, 40, 6);
    const BitAllocation best = *SolveBits(problem), fast = *SolveBits(problem, 1);
    EXPECT_EQ(ValidateBits(problem, fast), std::nullopt);
    EXPECT_LE(VarianceOf(problem, best), VarianceOf(problem, fast) * (1 + 1e-12));
  }
}

TEST(AllocateBits, MoreBudgetIsNeverWorse) {
  std::mt19937 engine(4);
  BitProblem problem = RandomProblem(engine, 30, 6);
  double before = std::numeric_limits<double>::infinity();
  for (problem.budget_bytes = LeastBytes(problem);
       before > 0 && problem.budget_bytes < LeastBytes(problem) * 8;
       problem.budget_bytes += LeastBytes(problem) / 7) {
    const double variance = VarianceOf(problem, *SolveBits(problem));
    EXPECT_LE(variance, before);
    before = variance;
  }
}

TEST(AllocateBits, ABudgetBelowTheLeastHasNoAllocation) {
  BitProblem problem{{{{10, 1}, {20, .5}}, {{7, 2}}}, 16};
  EXPECT_EQ(LeastBytes(problem), 17);
  EXPECT_FALSE(SolveBits(problem));
  problem.budget_bytes = 17;
  EXPECT_EQ(SolveBits(problem), (BitAllocation{0, 0}));
}

TEST(AllocateBits, NothingToAllocate) { EXPECT_EQ(SolveBits({{}, 0}), BitAllocation{}); }

TEST(AllocateBits, ValidationSeesWhatIsWrong) {
  const BitProblem problem{{{{10, 1}, {20, .5}}, {{7, 2}}}, 20};
  EXPECT_EQ(ValidateBits(problem, {0, 0}), std::nullopt);
  EXPECT_TRUE(ValidateBits(problem, {0}));
  EXPECT_TRUE(ValidateBits(problem, {0, 1}));
  EXPECT_TRUE(ValidateBits(problem, {1, 0}));
}

}  // namespace
}  // namespace act
