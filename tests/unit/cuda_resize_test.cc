#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/resize_case.h"

namespace act {
namespace {

// As the kernels of the processor: products of float32 weights, of which at most 256 are added, here without
// rounding between product and sum.
constexpr double kTolerance = 1e-6;

void ExpectAgree(const OpCase& c) {
  EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaResize, c, kTolerance), 0);
  EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaResize, Grad(c), kTolerance), 0);
}

// Each case has its tables in a kernel of its own, which takes a second to compile. The tables are those
// of the processor's kernels, whose test has all cases.
TEST(CudaResize, SomeOfEveryModeAndAnyAxes) {
  int number = 0;
  for (const auto& [name, c] : ResizeCases()) {
    if (name != "any axes" && number++ % 13 != 0) continue;
    SCOPED_TRACE(name);
    ExpectAgree(c);
  }
}

TEST(CudaResize, ManyTermsManyPixelsAndFourChannelsAtATime) {
  for (const OpCase& c : LargeResizeCases()) ExpectAgree(c);
}

TEST(CudaResize, EmptyBatch) { ExpectAgree(Resize({0, 4, 2}, {0, 8, 2}, {2}, "linear", "half_pixel")); }

}  // namespace
}  // namespace act
