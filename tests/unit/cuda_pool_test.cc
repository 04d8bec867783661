#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/pool_case.h"

namespace act {
namespace {

int Compare(const OpCase& c, double tolerance) {
  return CompareCudaWithReference(cuda::RegisterCudaPool, c, tolerance);
}

// Besides what other tests know: windows longer than the input, strides that skip pixels, four channels at a
// time.
std::vector<PoolCase> Cases() {
  std::vector<PoolCase> cases = PoolCases();
  const std::vector<PoolCase> more = {{{1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                                      {{2, 3, 5, 8}, {5, 7}, {1, 2}, {2, 3, 2, 3}},
                                      {{2, 9, 7, 12}, {2, 2}, {3, 4}, {0, 0, 0, 0}},
                                      {{1, 5, 13, 4}, {2, 3}, {1, 3}, {0, 2, 1, 0}, false, {3, 4}}};
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

TEST(CudaPool, MaximaAndTheirGradientsAgreeToTheBit) {
  for (const PoolCase& pool : Cases())
    for (const DType dtype : {DType::kUint8, DType::kInt32}) {
      SCOPED_TRACE(DimsText(pool.in) + ", window " + DimsText(pool.kernel));
      OpCase c = pool.Max(dtype);
      EXPECT_GT(Compare(c, 0), 0);
      c.outputs[1] = Absent();
      EXPECT_GT(Compare(c, 0), 0);
      EXPECT_GT(Compare(pool.MaxGrad(dtype), 0), 0);
    }
}

TEST(CudaPool, FirstOfEqualsWinsAndNanWins) {
  for (const int64_t channels : {1, 4}) {
    const PoolCase pool{{1, 9, channels}, {3}, {3}, {0, 0}};
    OpCase c = pool.Max(DType::kUint8);
    const float rows[] = {2, 7, 7, -1, NAN, 5, NAN, 9, NAN};
    for (int64_t i = 0; i < 9 * channels; ++i) c.inputs[0].as<float>()[i] = rows[i / channels];
    EXPECT_GT(Compare(c, 0), 0);
    for (int64_t i = 0; i < 9 * channels; ++i) c.inputs[0].as<float>()[i] = -INFINITY;
    EXPECT_GT(Compare(c, 0), 0);
  }
}

TEST(CudaPool, AveragesAndTheirGradientsAgree) {
  for (const PoolCase& pool : Cases())
    for (const bool include_pad : {false, true}) {
      SCOPED_TRACE(DimsText(pool.in) + ", window " + DimsText(pool.kernel));
      // Up to 49 float32 additions in sequence.
      EXPECT_GT(Compare(pool.Average(include_pad), 1e-6), 0);
      EXPECT_GT(Compare(pool.AverageGrad(include_pad), 1e-6), 0);
    }
}

// Neighbouring threads take neighbouring channels, four at a time where there are multiples of four.
TEST(CudaPool, WarpsTouchFewSectorsMoreThanTheyMust) {
  // 36 channels begin between sectors, each at half of one. 5 channels do too, and where every other pixel is
  // read, their 20 bytes are alone in two sectors.
  const std::pair<int64_t, double> limits[] = {{64, 1}, {36, 1.125}, {5, 2}};
  for (const auto& [channels, limit] : limits) {
    const PoolCase pool{{2, 17, 15, channels}, {3, 3}, {2, 2}, {1, 1, 1, 1}};
    for (const OpCase& c : {pool.Max(DType::kUint8), pool.MaxGrad(DType::kUint8), pool.Average(false),
                            pool.AverageGrad(false)}) {
      SCOPED_TRACE(c.op + " of " + std::to_string(channels) + " channels");
      EXPECT_LE(SectorsOverIdeal(cuda::RegisterCudaPool, c), limit);
    }
  }
}

}  // namespace
}  // namespace act
