// The scheduler's promises: the order is legal, never worse than the given one, and has the moves
// for which the scheduler exists.
#include "passes/planning/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace act {
namespace {

Schedule GivenOrder(const ScheduleProblem& problem) {
  Schedule order(static_cast<size_t>(problem.nodes));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Schedule, TakesLate) {
  // Node 0 makes a large tensor that only node 3 reads. Nodes 1 and 2 work on another tensor.
  ScheduleProblem p;
  p.nodes = 4;
  p.tensors = {{1000, 0, {3}}, {600, 1, {2}}, {10, 2, {3}}};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 1610);
  const Schedule s = SolveSchedule(p);
  EXPECT_EQ(ValidateSchedule(p, s), std::nullopt);
  EXPECT_EQ(PeakBytes(p, s), 1010);  // the order is 1, 2, 0, 3
}

TEST(Schedule, FreesEarly) {
  // Node 3 (an update) is the last to read node 0's large tensor. It may run right after node 0.
  ScheduleProblem p;
  p.nodes = 4;
  p.tensors = {{1000, 0, {3}}, {600, 1, {2}}};
  const Schedule s = SolveSchedule(p);
  EXPECT_EQ(ValidateSchedule(p, s), std::nullopt);
  EXPECT_EQ(PeakBytes(p, s), 1000);
}

TEST(Schedule, KeepsWhatMustStandBefore) {
  ScheduleProblem p;
  p.nodes = 4;
  p.tensors = {{1000, 0, {3}}, {600, 1, {2}}};
  // {2, 3} forbids the move of the test above, and {0, 1} forbids moving node 0 down.
  p.before = {{2, 3}, {0, 1}};
  const Schedule s = SolveSchedule(p);
  EXPECT_EQ(ValidateSchedule(p, s), std::nullopt);
  EXPECT_EQ(PeakBytes(p, s), 1600);
}

TEST(Schedule, ValidatorSeesEachFault) {
  ScheduleProblem p;
  p.nodes = 3;
  p.tensors = {{8, 0, {2}}};
  p.before = {{1, 2}};
  EXPECT_EQ(ValidateSchedule(p, {0, 1, 2}), std::nullopt);
  EXPECT_NE(ValidateSchedule(p, {2, 0, 1}), std::nullopt) << "read before it is made";
  EXPECT_NE(ValidateSchedule(p, {0, 2, 1}), std::nullopt) << "an order that must hold";
  EXPECT_NE(ValidateSchedule(p, {0, 1}), std::nullopt) << "a node is missing";
  EXPECT_NE(ValidateSchedule(p, {0, 1, 1, 2}), std::nullopt) << "a node runs twice";
  EXPECT_NE(ValidateSchedule(p, {0, 1, 3}), std::nullopt) << "no such node";
}

TEST(Schedule, RandomGraphsStayLegalAndNeverGetWorse) {
  std::mt19937 random(7);
  int better = 0;
  for (int trial = 0; trial < 200; ++trial) {
    ScheduleProblem p;
    p.nodes = 2 + static_cast<int32_t>(random() % 40);
    for (int32_t n = 0; n < p.nodes; ++n) {
      ScheduleProblem::Tensor t{static_cast<int64_t>(1 + random() % 1000), n, {}, random() % 16 == 0};
      for (int32_t r = n + 1; r < p.nodes; ++r)
        if (random() % 8 == 0) t.readers.push_back(r);
      p.tensors.push_back(t);
    }
    for (int i = 0; i < 3; ++i) {
      const auto a = static_cast<int32_t>(random() % static_cast<uint32_t>(p.nodes));
      const auto b = static_cast<int32_t>(random() % static_cast<uint32_t>(p.nodes));
      if (a != b) p.before.emplace_back(std::min(a, b), std::max(a, b));
    }
    const Schedule s = SolveSchedule(p);
    ASSERT_EQ(ValidateSchedule(p, s), std::nullopt) << "trial " << trial;
    EXPECT_LE(PeakBytes(p, s), PeakBytes(p, GivenOrder(p))) << "trial " << trial;
    better += PeakBytes(p, s) < PeakBytes(p, GivenOrder(p));
  }
  EXPECT_GT(better, 0) << "the solver never moved anything";
}

TEST(Schedule, EmptyGraph) {
  ScheduleProblem p;
  EXPECT_TRUE(SolveSchedule(p).empty());
  p.tensors = {{1000, -1, {}}};  // a model whose output is its input
  EXPECT_TRUE(SolveSchedule(p).empty());
}

}  // namespace
}  // namespace act
