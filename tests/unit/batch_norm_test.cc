#include "kernels/site/dereference.h"
#include "tests/unit/batch_norm_cases.h"

namespace act {
namespace {

TEST(BatchNormStats, ByHand) {
  OpCase c = BatchNormCase(Floats({2, 2, 1}, {1, 3, 5, 7}), 0.25);
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
  ForBatchNormCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(CompareWithReference(c, kBatchNormTolerance), 0) << what;
  });
}

TEST(BatchNormStats, AnEmptyBatchLeavesRunningStatisticsAlone) {
  const OpCase c = BatchNormCase(Empty({0, 4, 4, 3}));
  const OpResult y = RunReference(c);
  EXPECT_EQ(y.tensors[3].bytes, c.inputs[1].bytes);
  EXPECT_EQ(y.tensors[4].bytes, c.inputs[2].bytes);
  CompareWithReference(c, 0);
}

// One value tells nothing of a variance; PyTorch refuses such a batch. It may be an epoch's last one.
TEST(BatchNormStats, ASingleRowLeavesTheRunningVarianceAlone) {
  OpCase c = BatchNormCase(Floats({1, 2}, {3, -1}), 0.25);
  c.inputs[1] = Floats({2}, {8, 0});
  c.inputs[2] = Floats({2}, {4, 9});
  const OpResult y = RunReference(c);
  EXPECT_NEAR(y.tensors[3].as<float>()[0], 0.75 * 8 + 0.25 * 3, 1e-6);
  EXPECT_EQ(y.tensors[4].bytes, c.inputs[2].bytes);
  CompareWithReference(c, 0);
  c.attrs.Set("population", int64_t{1});
  EXPECT_NEAR(RunReference(c).tensors[4].as<float>()[1], 0.75 * 9, 1e-6);
}

}  // namespace
}  // namespace act
