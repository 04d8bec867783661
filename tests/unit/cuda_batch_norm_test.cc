#include "kernels/cuda/registry.h"
#include "tests/unit/batch_norm_cases.h"
#include "tests/unit/cuda_testing.h"

namespace act {
namespace {

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(cuda::RegisterCudaBatchNorm, c, tolerance);
}

TEST(CudaBatchNorm, AgreesWithTheReference) {
  ForBatchNormCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(Compare(c, kBatchNormTolerance), 0) << what;
  });
}

TEST(CudaBatchNorm, ARow0ThatIsFarFromTheOthersCostsNoAccuracy) {
  TestTensor x = Random({50, 9, 9, 12}, 1);
  for (int64_t c = 0; c < 12; ++c) x.as<float>()[c] = c % 2 ? 3e3f : -1e4f;
  OpCase far = BatchNormCase(std::move(x));
  EXPECT_GT(Compare(far, kBatchNormTolerance), 0);
}

TEST(CudaBatchNorm, UndefinedNumbersStayInTheirChannel) {
  for (const float odd : {INFINITY, -INFINITY, NAN})
    for (const int64_t row : {0, 700}) {
      OpCase c = BatchNormCase(Random({1000, 6}, 1));
      c.inputs[0].as<float>()[row * 6 + 2] = odd;
      EXPECT_GT(Compare(c, kBatchNormTolerance), 0) << odd << " in row " << row;
    }
}

TEST(CudaBatchNorm, AnEmptyBatchLeavesRunningStatisticsAlone) {
  EXPECT_GT(Compare(BatchNormCase(Empty({0, 4, 4, 3})), 0), 0);
}

TEST(CudaBatchNorm, MomentsAgreeWithTheReference) {
  ForBatchNormCases([](const OpCase& c, const std::string& what) {
    EXPECT_GT(Compare(BatchNormMomentsCase(c.inputs[0]), kBatchNormTolerance), 0) << what;
  });
  for (const int64_t channels : {1, 5, 300})
    EXPECT_GT(Compare(BatchNormFromMomentsCase(channels), kBatchNormTolerance), 0) << channels;
}

TEST(CudaBatchNorm, WarpsReadNeighbours) {
  // Shifts are loaded channel by channel, once a block: 1.16 where a part has few rows.
  for (const int64_t channels : {64, 256, 24})
    EXPECT_LT(SectorsOverIdeal(cuda::RegisterCudaBatchNorm, BatchNormCase(Random({1000, channels}, 1))), 1.25)
        << channels;
}

TEST(CudaBatchNorm, StepsThatRunningStatisticsAlreadyContainChangeNothing) {
  for (const uint64_t step : {4, 5}) {
    OpCase c = BatchNormCase(Random({4, 6, 6, 16}, 1));
    c.attrs.Set("updates_done", int64_t{5});
    c.attrs.Set("population", int64_t{1});
    c.state.step = step;
    EXPECT_GT(Compare(c, kBatchNormTolerance), 0) << "step " << step;
  }
}

}  // namespace
}  // namespace act
