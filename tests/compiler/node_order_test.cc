// The scheduler's promises: the order is legal, never worse than the given one, and has the moves
// for which the scheduler exists.
#include "passes/planning/schedule.h"

#include <gtest/gtest.h>

#include "passes/planning/move_blocks.h"

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

TEST(Schedule, CountsWhatLiesInOnePlaceOnce) {
  // Node 1 overwrites what it reads, and node 2 may not: node 3 reads the same.
  ScheduleProblem p;
  p.nodes = 4;
  p.tensors = {{100, 0, {1}}, {100, 1, {2, 3}}, {100, 2, {3}}};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 200);
  p.tensors[1].readers = {2}, p.tensors[2].readers = {};
  p.overwrites = {{1, 1, 0}};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 200);  // at node 2
  p.overwrites = {{1, 1, 0}, {2, 2, 1}};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 100);
  p.tensors[1].readers = {2, 3};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 200);
}

TEST(Schedule, ANodeOverwritesATensorOnce) {
  // Of two results, one takes the operand's place. A result takes one place of two.
  ScheduleProblem p;
  p.nodes = 3;
  p.tensors = {{100, 0, {1}}, {100, 1, {2}}, {100, 1, {2}}};
  p.overwrites = {{1, 1, 0}, {1, 2, 0}};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 200);
  p.tensors = {{100, 0, {2}}, {100, 1, {2}}, {100, 2, {}}};
  p.overwrites = {{2, 2, 0}, {2, 2, 1}};
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 200);
}

// Both branches read node 0's tensor. Of one branch, nodes 1 to 3 decode an operand, make the gradient of a weight, and
// the gradient of the operand, which is twice as large as what it is made from. Node 4, the update, runs after node 3,
// which reads the weight. Nodes 5 and 6 are the other branch. Node 7 adds the gradients.
ScheduleProblem TwoBranches() {
  ScheduleProblem p;
  p.nodes = 8;
  p.tensors = {{100, 0, {2, 3, 5}}, {150, 1, {2}}, {150, 2, {4}},     {200, 3, {7}},
               {300, 5, {6}},       {50, 6, {7}},  {200, 7, {}, true}};
  p.before = {{3, 4}};
  return p;
}

// No smaller part of the branch lowers what waits.
TEST(Schedule, ABlockMovesAsAWhole) {
  const ScheduleProblem p = TwoBranches();
  EXPECT_EQ(PeakBytes(p, GivenOrder(p)), 600);
  const Schedule moved = MoveBlocks(p, GivenOrder(p));
  EXPECT_EQ(ValidateSchedule(p, moved), std::nullopt);
  EXPECT_EQ(moved, (Schedule{0, 5, 6, 1, 2, 3, 4, 7}));
  EXPECT_EQ(PeakBytes(p, moved), 500);
}

TEST(Schedule, ABlockStaysBeforeWhatNeedsIt) {
  ScheduleProblem p = TwoBranches();
  p.before.emplace_back(3, 5);
  EXPECT_EQ(MoveBlocks(p, GivenOrder(p)), GivenOrder(p));
}

// With results that lie in the place of operands.
ScheduleProblem RandomProblem(std::mt19937& random) {
  ScheduleProblem p;
  p.nodes = 2 + static_cast<int32_t>(random() % 40);
  for (int32_t n = 0; n < p.nodes; ++n) {
    ScheduleProblem::Tensor t{static_cast<int64_t>(1 + random() % 1000), n, {}, random() % 16 == 0};
    for (int32_t r = n + 1; r < p.nodes; ++r)
      if (random() % 8 == 0) t.readers.push_back(r);
    p.tensors.push_back(t);
  }
  for (int32_t n = 0; n < p.nodes; ++n)
    for (int32_t read = 0; read < n; ++read) {
      ScheduleProblem::Tensor &made = p.tensors[static_cast<size_t>(n)],
                              &operand = p.tensors[static_cast<size_t>(read)];
      const std::vector<int32_t>& readers = operand.readers;
      if (random() % 2 || std::find(readers.begin(), readers.end(), n) == readers.end()) continue;
      made.bytes = operand.bytes;
      p.overwrites.push_back({n, n, read});
      break;
    }
  for (int i = 0; i < 3; ++i) {
    const auto a = static_cast<int32_t>(random() % static_cast<uint32_t>(p.nodes));
    const auto b = static_cast<int32_t>(random() % static_cast<uint32_t>(p.nodes));
    if (a != b) p.before.emplace_back(std::min(a, b), std::max(a, b));
  }
  return p;
}

TEST(Schedule, RandomGraphsStayLegalAndNeverGetWorse) {
  std::mt19937 random(7);
  int better = 0, better_in_blocks = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const ScheduleProblem p = RandomProblem(random);
    ScheduleProblem apart = p;  // as the solver sees it
    apart.overwrites.clear();
    const Schedule s = SolveSchedule(p);
    ASSERT_EQ(ValidateSchedule(p, s), std::nullopt) << "trial " << trial;
    EXPECT_LE(PeakBytes(apart, s), PeakBytes(apart, GivenOrder(p))) << "trial " << trial;
    better += PeakBytes(apart, s) < PeakBytes(apart, GivenOrder(p));
    const Schedule moved = MoveBlocks(p, s);
    ASSERT_EQ(ValidateSchedule(p, moved), std::nullopt) << "trial " << trial;
    // Tensors of less than 1e-4 of the peak do not count. There are up to 42 of them.
    EXPECT_LE(static_cast<double>(PeakBytes(p, moved)), 1.0042 * static_cast<double>(PeakBytes(p, s)))
        << "trial " << trial;
    better_in_blocks += PeakBytes(p, moved) < PeakBytes(p, s);
  }
  EXPECT_GT(better, 0) << "the solver never moved anything";
  EXPECT_GT(better_in_blocks, 0) << "no block moved";
}

TEST(Schedule, EmptyGraph) {
  ScheduleProblem p;
  EXPECT_TRUE(SolveSchedule(p).empty());
  EXPECT_TRUE(MoveBlocks(p, {}).empty());
  p.tensors = {{1000, -1, {}}};  // a model whose output is its input
  EXPECT_TRUE(SolveSchedule(p).empty());
}

}  // namespace
}  // namespace act
