#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/resize_case.h"

namespace act {
namespace {

// As the kernels of the processor: products of float32 weights, of which at most 256 are added, here without rounding
// between product and sum.
constexpr double kTolerance = 1e-6;

void ExpectAgree(const OpCase& c) {
  EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaResize, c, kTolerance), 0);
  EXPECT_GT(CompareCudaWithReference(cuda::RegisterCudaResize, Grad(c), kTolerance), 0);
}

TEST(CudaResize, EveryModeAndAnyAxes) {
  for (const auto& [name, c] : ResizeCases()) {
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
