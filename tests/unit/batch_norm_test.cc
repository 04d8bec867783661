#include "kernels/site/dereference.h"
#include "tests/unit/kernel_testing.h"

namespace act {
namespace {

// With the third result, which is left out where no node reads it.
OpCase Stats(TestTensor x, double momentum = 0.1) {
  const int64_t channels = x.dims.back();
  OpCase c{"BatchNormStats",
           {},
           {std::move(x), Random({channels}, 7), Random({channels}, 8)},
           {Empty({channels}), Empty({channels}), Empty({channels})},
           {1, 2},
           {}};
  c.attrs.Set("epsilon", 1e-5);
  c.attrs.Set("momentum", momentum);
  return c;
}

TEST(BatchNormStats, ByHand) {
  OpCase c = Stats(Floats({2, 2, 1}, {1, 3, 5, 7}), 0.25);
  c.inputs[1] = Floats({1}, {8});
  c.inputs[2] = Floats({1}, {4});
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[0].as<float>()[0], 4);
  EXPECT_NEAR(y.tensors[1].as<float>()[0], 1 / std::sqrt(5 + 1e-5), 1e-7);
  EXPECT_NEAR(y.tensors[2].as<float>()[0], 3 / std::sqrt(5 + 1e-5), 1e-6);
  EXPECT_NEAR(y.tensors[3].as<float>()[0], 0.75 * 8 + 0.25 * 4, 1e-6);
  EXPECT_NEAR(y.tensors[4].as<float>()[0], 0.75 * 4 + 0.25 * 20.0 / 3, 1e-6);
}

TEST(BatchNormStats, WithinAMillionthOfDouble) {
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{1, 1},
                                                                            {2, 3},
                                                                            {5, 7, 7, 64},
                                                                            {4, 50, 50, 24},
                                                                            {3, 9, 9, 130},
                                                                            {40, 2048},
                                                                            {1, 5, 1, 1000},
                                                                            {100000, 1}})
    EXPECT_GT(CompareWithReference(Stats(Random(dims, 1)), 1e-6), 0) << dims[0];
}

TEST(BatchNormStats, AFarMeanCostsNoAccuracy) {
  // The mean is 1000 deviations away from 0. E[x^2] - E[x]^2 in float32 would leave nothing
  // of the variance.
  EXPECT_GT(CompareWithReference(Stats(Random({6, 30, 30, 33}, 1, 1000.0f)), 1e-6), 0);
}

TEST(BatchNormStats, AMeanThatDriftsOverTheBatch) {
  TestTensor x = Random({64, 20, 20, 8}, 1);
  for (int64_t i = 0; i < x.elements(); ++i) x.as<float>()[i] += static_cast<float>(i / 3200) * 5 - 100;
  EXPECT_GT(CompareWithReference(Stats(std::move(x)), 1e-6), 0);
}

TEST(BatchNormStats, RunningStatisticsMayBeLeftOut) {
  OpCase c = Stats(Random({4, 6, 6, 16}, 1));
  c.inputs[1] = c.inputs[2] = Absent();
  c.mutates = {};
  EXPECT_GT(CompareWithReference(c, 1e-6), 0);
}

TEST(BatchNormStats, AnEmptyBatchLeavesRunningStatisticsAlone) {
  const OpCase c = Stats(Empty({0, 4, 4, 3}));
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[3].bytes, c.inputs[1].bytes);
  EXPECT_EQ(y.tensors[4].bytes, c.inputs[2].bytes);
  CompareWithReference(c, 0);
}

TEST(BatchNormStats, TheLargestMayBeLeftOut) {
  OpCase c = Stats(Random({4, 6, 6, 16}, 1));
  c.outputs.pop_back();
  EXPECT_GT(CompareWithReference(c, 1e-6), 0);
}

}  // namespace
}  // namespace act
