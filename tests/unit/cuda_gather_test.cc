#include "kernels/cuda/registry.h"
#include "tests/unit/cuda_testing.h"
#include "tests/unit/gather_cases.h"

namespace act {
namespace {

using cuda::RegisterCudaGather;

TEST(CudaGather, AgreesWithTheReference) {
  ForGatherCases([](const OpCase& c) { EXPECT_GT(CompareCudaWithReference(RegisterCudaGather, c, 0), 0); });
}

// Updates of one target are added 32 at a time in their order, and these sums in double. The reference adds them one
// after the other in float32: of up to 70 updates, each of which rounds by 2^-24 of the sum. Products of so many
// factors differ by as many roundings. Others are exact.
double ToleranceOf(const OpCase& c) {
  const std::string reduction = c.attrs.String("reduction");
  return reduction == "add" ? 1e-6 : reduction == "mul" ? 1e-5 : 0;
}

TEST(CudaScatter, AgreesWithTheReference) {
  ForScatterCases([](const OpCase& c) {
    EXPECT_GT(CompareCudaWithReference(RegisterCudaGather, c, ToleranceOf(c)), 0)
        << c.attrs.String("reduction");
  });
}

}  // namespace
}  // namespace act
